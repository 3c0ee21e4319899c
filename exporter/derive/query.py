"""One SELECT that makes rows of each row of a source, alone: what Spark's own analysis says of it, and how it is run.

    text ── Spark's analyser, over a view without a row ─┬─ refused(): what looks at more than one row, at other
                                                         │  tables, at the clock or at chance
                                                         └─ `_kafka` of the source's row, added where it is left out
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from exporter.derive.failing import told
from exporter.errors import ConfigError
from exporter.lake.later import Later
from exporter.sql_text import column

VIEW = "source"
"""What a query calls the rows that it is run over."""
KAFKA = "_kafka"
UNFIT = set(" ,;{}()\n\t=`")
"""What Delta has in no name of a column, and what quotes one."""

PER_ROW = frozenset({"Project", "Filter", "Generate", "SubqueryAlias", "View", "Union", "LogicalRDD",
                     "WithCTE", "CTERelationDef", "CTERelationRef", "PipeOperator"})  # fmt: skip
"""Nodes of a plan that make rows of each row alone."""
WORDS = {
    "Aggregate": "an aggregate", "AggregateExpression": "an aggregate", "Window": "a window",
    "WindowExpression": "a window", "Distinct": "DISTINCT", "Deduplicate": "DISTINCT", "Sort": "ORDER BY",
    "GlobalLimit": "LIMIT", "LocalLimit": "LIMIT", "Offset": "OFFSET", "Join": "a join", "LateralJoin": "a join",
    "Sample": "TABLESAMPLE", "OneRowRelation": "rows that are not of the source", "Range": "rows of another table",
    "LocalRelation": "rows that are not of the source", "LogicalRelation": "rows of another table",
    "DataSourceV2Relation": "rows of another table",
}  # fmt: skip
"""What a person calls a node of a plan."""
UNSTEADY = ("Current", "Now", "LocalTimestamp", "Uuid", "Rand", "Shuffle", "InputFile", "Monotonically",
            "SparkPartition", "SparkVersion")  # fmt: skip
"""What names of expressions begin with that say something else the next time."""
HINT = "a query makes rows of each new row alone: filter, flatten, explode; [derive] has other kinds for the rest"


class Query:
    """later: the job's own session, of which nobody else uses the views."""

    def __init__(self, job: str, text: str, later: Later) -> None:
        self._job = job
        self.text = text
        self._later = later
        self._checked: tuple[StructType, StructType] | None = None

    def schema(self, source: StructType) -> StructType:
        """Of the rows that it makes, all fields nullable, `_kafka` first. Raises ConfigError."""
        plain = nullable(source)
        if self._checked is None or self._checked[0] != plain:
            self._checked = plain, self._schema(self._later.session.createDataFrame([], plain))
        return self._checked[1]

    def over(self, rows: DataFrame) -> DataFrame:
        """What it makes of rows of the source, in the columns of schema()."""
        return self._run(rows, self.schema(rows.schema).names)

    def _schema(self, empty: DataFrame) -> StructType:
        empty.createOrReplaceTempView(VIEW)
        try:
            plan = self._analysed()
            nodes = [*_classes(json.loads(plan.toJSON()))]
        except Exception as error:  # pyspark and py4j raise their own kinds
            raise self._wrong(told(error), "correct `query`; it selects from `source`") from error
        if what := refused(nodes):
            raise self._wrong(f"{what} is not of one row alone", HINT)
        if not plan.deterministic():
            raise self._wrong("it says something else each time that it is run", HINT)
        names: list[str] = [field["name"] for field in json.loads(plan.schema().json())["fields"]]
        names = names if KAFKA in names else [KAFKA, *names]
        self._require_fit(names)
        try:
            found = self._run(empty, [KAFKA, *(name for name in names if name != KAFKA)]).schema
        except Exception as error:
            what = f"`{KAFKA}` of the source's row cannot be added to it: {told(error)}"
            raise self._wrong(what, f"select {KAFKA} too, in each inner SELECT as well") from error
        if found[KAFKA].dataType != empty.schema[KAFKA].dataType:
            raise self._wrong(f"its column {KAFKA} is not the source's", "call the column by another name")
        if void := next((field.name for field in found if field.dataType.typeName() == "void"), None):
            raise self._wrong(f"column {void} has no type", f"cast it: CAST(NULL AS STRING) AS {void}")
        return nullable(found)

    def _run(self, rows: DataFrame, names: list[str]) -> DataFrame:
        rows.createOrReplaceTempView(VIEW)
        made: DataFrame = self._later.session.sql(self.text)
        if KAFKA not in made.columns:
            made = self._with_kafka()
        return made.select(*map(column, names))

    def _analysed(self) -> Any:
        """Spark's plan of the query over the view, of which nothing is run: it may be a command."""
        state = self._later.session._jsparkSession.sessionState()
        plan = state.sqlParser().parsePlan(self.text)
        return state.executePlan(plan, getattr(state, "executePlan$default$2")()).analyzed()

    def _with_kafka(self) -> DataFrame:
        """The query with one column more in its outermost SELECT. Raises what Spark raises."""
        session = self._later.session
        plans = session._jvm.org.apache.spark.sql.catalyst
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(self.text)
        if not plan.getClass().getName().endswith(".Project"):
            raise ValueError("it is not one SELECT")
        added = plan.projectList().appended(plans.analysis.UnresolvedAttribute.quoted(KAFKA))
        more = plans.plans.logical.Project(added, plan.child())
        rows = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, more)
        return DataFrame(rows, session)

    def _wrong(self, what: str, hint: str) -> ConfigError:
        return ConfigError(f"[derive.{self._job}] query: {what}", hint)

    def _require_fit(self, names: list[str]) -> None:
        """Raises ConfigError for names that a table cannot have."""
        folded = [name.lower() for name in names]
        if twice := next((name for name in names if folded.count(name.lower()) > 1), None):
            raise self._wrong(f"two columns are called {twice}", "give one of them another name by AS")
        if unfit := next((name for name in names if UNFIT & {*name}), None):
            raise self._wrong(f"a column is called {unfit!r}", "give it another name by AS")


def refused(nodes: list[str]) -> str | None:
    """What of a plan a job may not have, as a person calls it; None: nothing. nodes: classes of it, with packages."""
    for node in nodes:
        package, _, name = node.rpartition(".")
        if name in WORDS:
            return WORDS[name]
        if "expressions" not in package:
            if name not in PER_ROW:
                return name
        elif "Subquery" in name or name in ("Exists", "ListQuery"):
            return "a subquery"
        elif name.startswith(UNSTEADY) or name.endswith("UDF"):
            return f"the function {name}"
    return None


def _classes(plan: Any) -> Iterator[str]:
    """The classes of all nodes and expressions in a plan as Spark writes it in JSON."""
    if isinstance(plan, dict):
        if "class" in plan:
            yield plan["class"]
        for value in plan.values():
            yield from _classes(value)
    elif isinstance(plan, list):
        for one in plan:
            yield from _classes(one)


def nullable(schema: StructType) -> StructType:
    """With null allowed at every level and no metadata: what an expression never gives today it may give tomorrow."""

    def free(part: Any) -> Any:
        if isinstance(part, list):
            return [free(one) for one in part]
        if not isinstance(part, dict):
            return part
        kept = {key: free(value) for key, value in part.items()}
        kept |= {key: True for key in ("nullable", "containsNull", "valueContainsNull") if key in kept}
        return {**kept, "metadata": {}} if "metadata" in kept else kept

    return StructType.fromJson(free(json.loads(schema.json())))
