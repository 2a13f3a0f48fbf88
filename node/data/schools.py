"""Pupils of 65 London schools: each school is an agent (Goldstein et al. 1993, as in R's mlmRev).

The label is the exam score at 16, already a normal score of its rank among all pupils: the one thing here that was
computed from the data, so it is a public assumption. The school average in the file is left out: it puts every
pupil's record into every other's.
"""

from __future__ import annotations

from node.configuration.data import DataSection
from node.data import people
from node.data.columns import Number, Plan, Words, encode, inside, numbers, scale_rows
from node.data.csv_file import read_columns
from node.data.paths import bundled, one_of
from node.data.table import Table

_BANDS = ("bottom 25%", "mid 50%", "top 25%")

PLAN: Plan = {
    "standLRT": Number(-3.0, 3.0, clip=True),  # LRT score / 3, cut to [-1, 1]
    "sex": Words(("F", "M"), base="F"),
    "vr": Words(_BANDS, base="mid 50%"),
    "intake": Words(_BANDS, base="mid 50%"),
    "schgend": Words(("mixed", "boys", "girls"), base="mixed"),
}
LABEL_BOUND = 4.0
"""A normal score of 4,059 ranks is at most 3.67."""


def load(section: DataSection) -> Table:
    """4,059 pupils; 9 features / sqrt(6), so that every possible row has L2 norm at most 1."""
    columns = read_columns(one_of(bundled("schools", section.path), ("exam.csv",)))
    by = section.column or "school"
    encoded = encode(columns, PLAN if by == "school" else people.without(PLAN, section), intercept=True)
    x, row_bounds = scale_rows(encoded, "public", "l2")
    y = numbers("normexam", columns["normexam"])
    inside("normexam", y, -LABEL_BOUND, LABEL_BOUND)
    return Table(
        x=x,
        y=y,
        features=encoded.features,
        record="one pupil",
        row_bounds=row_bounds,
        label_bound=LABEL_BOUND,
        groups=columns[by],
        group=by,
        sources=columns,
        public_assumptions=(
            "schools: the exam score was published as a normal score of each pupil's rank among all pupils",
            "schools: the LRT score was published standardised over all pupils",
        ),
    )
