"""The glossary, tablestore/GLOSSARY.md, is the law: nouns of classes and options are in it, each once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from tablestore.core.options.table_options import TableOptions

ENGINE = Path(__file__).parents[1] / "tablestore"
# Words of any program, to which a lake table adds no meaning.
ORDINARY = """
ability access account advice after agg already alter answer alternative always async attribute auto bar basis
assigned block book bound bounded buffer cache candidate cast cell choice choose chunk clean code commit
committed committer compression compute confine constant contain container content
context continuous conversion convert corrupt credential
cost count create creation cross damaged default delay dense diagnosis difference dir disable discard
discovery distinct door draw duck duplicate duration dv empty enable encode env error estimate exist expect
exit explicit extent fact fail failure family feed flat flow fold footer force format formatter found frame fs
group guard handle header high hit hive hour identity ignore include ingest initial input inspect
interval invalid io java jdbc latest layout leaf legacy like limit load local loop lost map mapping mark max
meta metric millis min mismatch miss missing mode model modifiable multiplier n nested non normalize num
object mend off offpeak only optimization origin outcome output outside package parameter pattern pending per
percent period piece plan point policy pool postgres prefix priority problem process product progress
question random ranking refresh refuse registry request restart result retain retries retry rewrite safe
sample schedule scratch segment server session set setting shape sign sim simple sink size skip small spark
shell spec specific sql sqlite state stateless status step stopped storage strategy strict success suffix sum
summary sync syntax task thin thread threshold timeout timestamp token total trace
trial ttl type unavailable union unknown unsupported use walk weights window work
zone zstd automatic compound execute finish location mendable nearest summed
capture comment connection current definition describe drop expression property rename report
show using view slot fsync bootstrap runner paimon iceberg pending response admin info node
avro confluent basic auth subject url debezium
""".split()


def glossary() -> str:
    return (ENGINE / "GLOSSARY.md").read_text(encoding="utf-8")


def rows() -> list[tuple[str, ...]]:
    """(noun, what it is, elsewhere, module) of each row."""
    matches = re.findall(r"^\| \*(.+?)\* \| (.+) \| (.+) \| `(.+)` \|$", glossary(), re.MULTILINE)
    assert len(matches) > 50
    return matches


ENDS = "ications ication ations ation ions ion ings ing ers er ors or ies ied es ed s y e".split()


def stem(word: str) -> str:
    """A word without its usual ending, so that `Merged`, `merging` and `merges` are `merg`."""
    word = word.lower()
    end = next((end for end in ENDS if word.endswith(end) and len(word) - len(end) >= 3), "")
    return word.removesuffix(end).rstrip("e") or word


def known() -> set[str]:
    return {stem(word) for row in rows() for word in re.findall(r"[A-Za-z]+", f"{row[0]} {row[1]}")} | {
        stem(word) for word in ORDINARY
    }


def classes() -> Iterator[tuple[str, str]]:
    """(name, place) of every class of the engine without an underscore before its name; values of SQL
    statements are named as their statements."""
    for path in sorted(ENGINE.rglob("*.py")):
        if path.is_relative_to(ENGINE / "sql" / "statements"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := re.match(r" *class ([A-Za-z]\w*)[(:\[]", line):
                yield match[1], f"{path.relative_to(ENGINE)}:{number}"


def words(name: str) -> list[str]:
    """`LsmOptions`, `IOError` and `num-sorted-run` in words."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)


def test_each_noun_is_there_once_and_its_module_defines_it() -> None:
    nouns = [noun for row in rows() for noun in row[0].split(", ")]
    assert len(nouns) == len(set(nouns))
    for noun, _, _, module in rows():
        text = module + (ENGINE / module).read_text(encoding="utf-8").lower()
        stems = [stem(word) for word in re.findall(r"[A-Za-z]+", noun.split(",")[0])]
        assert any(s in text for s in stems), f"{module} does not speak of {noun}"


def test_names_of_classes_are_made_of_its_nouns() -> None:
    there = known()
    strange = {
        f"{name} ({place})" for name, place in classes() if any(stem(w) not in there for w in words(name))
    }
    assert not strange


def test_options_are_made_of_its_nouns() -> None:
    there = known()
    keys = [field.metadata["key"] for field in fields(TableOptions)]
    assert not {key for key in keys if any(stem(word) not in there for word in words(key))}
