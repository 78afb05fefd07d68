"""Names that statistical offices give to columns of places, counts, codes and totals, in several languages.

Names are compared without their case, blanks and Unicode form. A register of names suggests a role; the values decide
together with it, and the result says so.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any


def _register(names: str) -> frozenset[str]:
    """Set of names from a text with blanks between them."""
    return frozenset(names.split())


# Names of columns of places.
PLACES = _register(
    "place places block blocks blkgrp blockgroup tract tracts county counties district districts state states "
    "country nation region regions municipality city town village ward parish province canton department departement "
    "département departamento commune comuna comune municipio municipi provincia provincie regione región "
    "regiao região estado distrito "
    "área zone area location site unit geography geo geoid gisjoin fips ags ars lau nuts nuts1 nuts2 nuts3 lsoa msoa "
    "oa plz zip zipcode zcta postcode postleitzahl "
    "insee gemeinde kreis landkreis bezirk bundesland land ort ortsteil stadt stadtteil quartier viertel "
    "wahlkreis regierungsbezirk kommune kommun lan län fylke gemeente wijk buurt gmina powiat wojewodztwo "
    "województwo okres kraj obec hospital clinic school plant "
    "bundeslaender statea countya tracta blkgrpa blocka placea"
)

# Names of columns of codes, row numbers and periods.
CODES = _register(
    "id ids uid code codes key year jahr berichtsjahr année annee año ano anno aar år jaar rok vuosi date datum month "
    "monat quarter quartal period periode nr index rank row serial schlüssel schluessel kennziffer"
)

# Names of columns of periods: people of several periods stand in a file several times.
PERIODS = _register(
    "year years jahr berichtsjahr année annee año ano anno aar år jaar rok vuosi period periode date datum month monat "
    "quarter quartal stichtag"
)

# Names of columns of counts.
COUNTS = _register(
    "count counts n value freq freqs frequency anzahl persons people population pop estimate obsvalue wert fälle "
    "faelle häufigkeit haeufigkeit bevölkerung bevoelkerung personen einwohner effectif effectifs nombre personas "
    "población poblacion conteo casos numero número numeri persone popolazione aantal antal folkmängd liczba ludność "
    "osoby pocet počet cases residents inhabitants numberofpeople numberofpersons fk"
)

# Names of features of people that are often written as numbers.
FEATURES = _register(
    "age ages group alter alt âge edad età idade leeftijd ålder agegroup ageclass altersgruppe income "
    "einkommen revenu size "
    "hhsize householdsize birthyear yearofbirth geburtsjahr cohort sex gender geschlecht sexe sexo race ethnicity "
    "religion education nationality citizenship occupation diagnosis dx status maritalstatus height "
    "children kinder"
)

# Names of columns of errors of estimates.
ERRORS = _register("moe se cv stderr margin error rse lower upper summaryvalue summaryest summarymoe")

# Words in names of columns of shares, averages and areas.
SHARES = _register(
    "pct percent percentage share shares proportion rate ratio mean average median avg density prozent anteil anteile "
    "quote durchschnitt mittelwert dichte aland awater arealand areawater hectares km2 sqkm sqmi fläche flaeche "
    "superficie surface amount betrag price revenue taux moyenne pourcentage porcentaje tasa media andel andelen"
)

# Names of columns of survey weights.
WEIGHTS = _register(
    "weight weights gewicht gewichtung hochrechnungsfaktor peso pesos poids pondération ponderation wt pwgtp"
)

# Names of sums of categories.
TOTALS = _register(
    "total totals totale totaal sum summe insgesamt gesamt zusammen ensemble suma razem yhteensä ialt celkem "
    "all alle both everyone everybody tous todos tutti"
)

# Words of a name that do not speak against its role: "county code" is a place.
_FILLERS = _register(
    "sexes ages persons people population count counts of and the races genders categories groups code codes id name "
    "names no nr key number fips row rows"
)

# Names of places by size, the smallest first: a block is named within its tract.
LEVELS = (
    {"block", "blocka"},
    {"group", "blockgroup", "blkgrp", "blkgrpa"},
    {"tract", "tracta"},
    {"municipality", "gemeinde", "commune", "kommune", "city", "town", "ward"},
    {"county", "countya", "district", "kreis", "landkreis", "province", "department"},
    {"state", "statea", "region", "bundesland", "land", "canton"},
    {"country", "nation"},
)

# Length of the code of each place in a code of the United States Census Bureau, which begins with those of larger ones.
CENSUS_CODES = {
    "block": 15, "group": 12, "blockgroup": 12, "tract": 11, "county": 5, "state": 2
}  # fmt: skip

# The column of places in files of NHGIS, where the codes of tracts are TRACTA, and so on.
NHGIS = "GISJOIN"

# Names of places that mean the whole file if no column has that name.
WHOLE = _register(
    "all total everybody everyone whole wholefile file everywhere country nation national nationwide world state "
    "region county city town municipality province land bundesland kreis gesamt insgesamt ensemble pays país"
)


def folded(text: Any) -> str:
    """Key for comparing names: without case, surplus blanks and differences of Unicode form.

    Parameters
    ----------
    text : as it is written

    >>> folded("  Straße\u00a0 a ") == folded("STRASSE A")
    True
    """
    return " ".join(unicodedata.normalize("NFKC", str(text)).casefold().split())


def tidied(text: Any) -> str:
    """Name to show: composed Unicode, one blank between words, none around them.

    Parameters
    ----------
    text : as it is written
    """
    return " ".join(unicodedata.normalize("NFC", str(text)).split())


def bare(name: Any) -> str:
    """Letters and digits of a folded name: equal for "Block group" and "block_group".

    Parameters
    ----------
    name : as it is written

    >>> bare("Block_Group")
    'blockgroup'
    """
    return re.sub(r"[\W_]+", "", folded(name))


def words_of(name: Any) -> list[str]:
    """Words of a name, folded and without digits at their ends.

    Parameters
    ----------
    name : as it is written

    >>> words_of("county_code2")
    ['county', 'code']
    """
    return [word for part in re.split(r"[\W_]+", folded(name)) if (word := part.rstrip("0123456789") or part)]


def is_named(name: Any, register: Iterable[str]) -> bool:
    """True if a name is in a register, or some of its words are and all others are fillers such as "code".

    Parameters
    ----------
    name : of a column or category
    register : names

    >>> is_named("County code", PLACES), is_named("hospital visits", PLACES)
    (True, False)
    """
    chosen, words = frozenset(register), words_of(name)
    return bare(name) in chosen or (
        any(word in chosen for word in words) and all(word in chosen or word in _FILLERS for word in words)
    )


def level_of(name: Any) -> int:
    """Index of a name in `LEVELS`, or -1.

    Parameters
    ----------
    name : of a column

    >>> level_of("Tract"), level_of("sex")
    (2, -1)
    """
    return next((i for i, level in enumerate(LEVELS) if is_named(name, level)), -1)


def option(key: str, value: str) -> str:
    """Option of the command to name in a message; the same argument has underscores in Python and in files.

    Parameters
    ----------
    key : of the argument
    value : what to give

    >>> option("leave_out", "total")
    '--leave-out total'
    """
    quoted = f'"{value}"' if re.search(r"[^\w=.,<-]", value) else value
    return f"--{key.replace('_', '-')} {quoted}"
