"""The named datasets: what they hold, and that one record never enters another."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node.data import DataError, DataSection, Dealt, adult, bank, credit_card, deal, kddcup99, schools
from node.data.columns import row_norms
from tests.helpers.places import ROOT

SCHOOLS = ROOT / "examples" / "data" / "schools" / "exam.csv"


def dealt(*, seed: int = 1, private: bool = False, norm: str | None = None, **fields: Any) -> Dealt:
    return deal(DataSection(**fields), seed=seed, private=private, norm=norm)


def changed(before: Dealt, after: Dealt) -> int:
    """In how many records, training and test, two dealings of the same rows differ."""
    count = 0
    for a, b in zip(before.shards, after.shards, strict=True):
        count += int(np.any(a.x != b.x, axis=1).__or__(a.y != b.y).sum())
        count += int(np.any(a.x_test != b.x_test, axis=1).__or__(a.y_test != b.y_test).sum())
    return count


def check_bounds(data: Dealt) -> None:
    for shard in data.shards:
        for x in (shard.x, shard.x_test):
            assert x.flags.c_contiguous
            assert x.dtype == np.float64
            for norm, bound in data.row_bounds.items():
                assert row_norms(x, norm).max(initial=0.0) <= bound * (1 + 1e-12)
        if data.label_bound is not None:
            assert np.abs(shard.y).max(initial=0.0) <= data.label_bound


# --- schools ---------------------------------------------------------------------------------------------------------


def test_schools() -> None:
    data = dealt(source="schools")
    assert len(data.shards) == 65
    assert data.names[:2] == ("school 1", "school 2")
    assert data.features == (
        "intercept",
        "standLRT",
        "sex=M",
        "vr=bottom 25%",
        "vr=top 25%",
        "intake=bottom 25%",
        "intake=top 25%",
        "schgend=boys",
        "schgend=girls",
    )
    assert data.metric == "rmse"
    assert data.record == "one pupil"
    assert data.row_bounds["l2"] == 1.0
    assert sum(s.records + len(s.y_test) for s in data.shards) == 4059
    assert all(s.records >= 1 and len(s.y_test) >= 1 for s in data.shards)
    assert any("normal score" in sentence for sentence in data.public_assumptions)
    check_bounds(data)
    rows = np.vstack([s.x for s in data.shards]) * np.sqrt(6.0)
    assert np.allclose(rows[:, 0], 1.0, rtol=0, atol=1e-15)
    assert set(np.round(rows[:, 2:], 12).ravel()) == {0.0, 1.0}


def test_a_replaced_pupil_changes_one_record(tmp_path: Path) -> None:
    lines = SCHOOLS.read_text().splitlines()
    assert lines[200].startswith("4,")
    lines[200] = "4,3.6,girls,9.9,top 25%,top 25%,2.9,F,Sngl,999"
    (tmp_path / "exam.csv").write_text("\n".join(lines))
    before, after = dealt(source="schools"), dealt(source="schools", path=str(tmp_path))
    assert changed(before, after) == 1
    assert before.digest != after.digest


def test_schools_alone_are_as_hard_as_known() -> None:
    """Ridge regression of each school alone: 0.739 on average over many seeds; over 8 seeds within 0.014 of it.

    One seed varies by 0.013, so 3 deviations of a mean over 8 seeds are 0.014.
    """
    errors = []
    for seed in range(8):
        for shard in dealt(source="schools", seed=seed).shards:
            # mean square + 0.1/m |theta|^2: the m of both terms cancels.
            gram = shard.x.T @ shard.x + 0.1 * np.eye(9)
            model = np.linalg.solve(gram, shard.x.T @ shard.y)
            errors.append(float(np.sqrt(np.mean((shard.x_test @ model - shard.y_test) ** 2))))
    assert abs(np.mean(errors) - 0.739) < 0.014


def test_a_seed_deals_the_same_and_another_differently() -> None:
    digests = [dealt(source="schools", seed=seed).digest for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]
    assert dealt(source="schools", seed=2, held_out=0.3).digest == digests[2]
    assert deal(DataSection(source="schools", seed=1), seed=9, private=False, norm=None).digest == digests[0]


def test_other_splits_of_schools() -> None:
    assert [s.records for s in dealt(source="schools", split="even", agents=3, held_out=0.0).shards] == [1353] * 3
    assert dealt(source="schools", agents=2).names == ("school 1", "school 2")
    assert dealt(source="schools", column="sex").names == ("sex F", "sex M")
    assert not any(name.startswith("sex") for name in dealt(source="schools", column="sex").features)
    with pytest.raises(DataError, match="no column 'town'"):
        dealt(source="schools", column="town")
    with pytest.raises(DataError, match=r"data\.agents is 66"):
        dealt(source="schools", agents=66)


def test_an_agent_may_have_no_rows() -> None:
    data = dealt(source="breast-cancer", sizes=(0, 1, 10), held_out=0.3)
    assert [s.records for s in data.shards] == [0, 1, 7]
    assert data.shards[0].x.shape == (0, 10)
    assert data.shards[0].x_test.shape == (0, 10)


def test_files_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.path: .* holds none of exam\.csv"):
        dealt(source="schools", path=str(tmp_path))
    with pytest.raises(DataError, match="get-movielens"):
        dealt(source="movielens-100k", path=str(tmp_path / "none"))
    monkeypatch.setattr("node.data.paths.__file__", str(tmp_path / "a" / "b" / "c.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"data\.path is not set"):
        dealt(source="schools")


# --- breast cancer, adult, bank --------------------------------------------------------------------------------------


def test_breast_cancer() -> None:
    data = dealt(source="breast-cancer", agents=3, held_out=0.0)
    assert data.dimension == 10
    assert data.metric == "accuracy"
    y = np.concatenate([s.y for s in data.shards])
    assert (y == 1).sum() == 239
    assert (y == -1).sum() == 444
    check_bounds(data)
    check_bounds(dealt(source="breast-cancer", agents=3, row_scaling="record", norm="l1"))
    assert data.public_assumptions == ()
    skewed = dealt(source="breast-cancer", agents=3, split="dirichlet", alpha=0.5)
    assert any("Dirichlet" in sentence for sentence in skewed.public_assumptions)


ADULT = [
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    "United-States, <=50K",
    "50, Self-emp-not-inc, 83311, Masters, 14, Divorced, Sales, Husband, Black, Female, 0, 0, 13, Cuba, >50K",
    "28, ?, 338409, HS-grad, 9, Separated, Tech-support, Wife, White, Female, 0, 0, 45, India, >50K",
    "31, Private, 45781, Masters, 14, Never-married, Prof-specialty, Not-in-family, White, Female, 14084, 0, 50, "
    "United-States, >50K",
]


@pytest.fixture
def adult_folder(tmp_path: Path) -> Path:
    (tmp_path / "adult.data").write_text("\n".join(ADULT) + "\n\n")
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + "\n".join(line + "." for line in ADULT) + "\n\n")
    return tmp_path


def test_adult_has_105_features_of_norm_1(adult_folder: Path) -> None:
    data = dealt(source="adult", path=str(adult_folder), agents=1, test="published")
    (shard,) = data.shards
    assert data.dimension == 105
    assert shard.records == len(shard.y_test) == 3  # one of four has a missing value
    assert sorted(shard.y) == [-1.0, 1.0, 1.0]
    assert np.allclose(row_norms(shard.x, "l2"), 1.0, rtol=0, atol=1e-15)
    assert (np.count_nonzero(shard.x, axis=1) >= 12).all()
    assert data.public_assumptions == ()
    check_bounds(data)
    check_bounds(dealt(source="adult", path=str(adult_folder), agents=1, norm="l1"))


def test_adult_held_out_comes_from_both_files(adult_folder: Path) -> None:
    (both,) = dealt(source="adult", path=str(adult_folder), agents=1, held_out=0.0).shards
    assert both.records == 6
    (one,) = dealt(source="adult", path=str(adult_folder / "adult.test"), agents=1, held_out=0.0).shards
    assert one.records == 3


def test_adult_as_published_names_its_maxima(adult_folder: Path) -> None:
    data = dealt(source="adult", path=str(adult_folder), agents=1, as_published=True, intercept=True)
    assert data.dimension == 106
    assert any("maxima" in sentence for sentence in data.public_assumptions)


def test_a_replaced_person_changes_one_record_but_all_as_published(adult_folder: Path) -> None:
    given: dict[str, Any] = {"source": "adult", "path": str(adult_folder), "agents": 1, "test": "published"}
    before, published = dealt(**given), dealt(**given, as_published=True)
    lines = [*ADULT]
    lines[0] = lines[0].replace("39, State-gov", "90, Private")
    (adult_folder / "adult.data").write_text("\n".join(lines))
    assert changed(before, dealt(**given)) == 1
    assert changed(published, dealt(**given, as_published=True)) == 6


def test_a_country_becomes_its_frequency_over_that_of_the_most_frequent(adult_folder: Path) -> None:
    given: dict[str, Any] = {"source": "adult", "path": str(adult_folder), "agents": 1, "held_out": 0.0}
    given |= {"as_published": True, "by_frequency": ("native-country",), "row_scaling": "none"}
    data = dealt(**given)
    assert data.dimension == 105 - 41 + 1
    (shard,) = data.shards
    frequencies = shard.x[:, data.features.index("native-country")]
    # Of three people in either file without a missing value two are from the United States and one from Cuba.
    assert sorted(frequencies) == [0.5, 0.5, 1.0, 1.0, 1.0, 1.0]
    assert any("frequency of its values over all records" in sentence for sentence in data.public_assumptions)
    published = dealt(**given | {"test": "published", "held_out": None})
    assert sorted(published.shards[0].x[:, -1]) == [0.5, 1.0, 1.0], "those of both files"
    with pytest.raises(DataError, match=r"data\.by_frequency: 'age' is no feature of words; accepted are workclass"):
        dealt(**given | {"by_frequency": ("age",)})


def test_one_replaced_country_changes_the_frequency_of_all(adult_folder: Path) -> None:
    given: dict[str, Any] = {"source": "adult", "path": str(adult_folder), "agents": 1, "held_out": 0.0}
    given |= {"as_published": True, "by_frequency": ("native-country",)}
    before = dealt(**given)
    lines = [ADULT[0].replace("United-States", "India"), *ADULT[1:]]
    (adult_folder / "adult.data").write_text("\n".join(lines))
    assert changed(before, dealt(**given)) == 3, "the record, and the two from Cuba"


def test_adult_by_a_column_and_without_another(adult_folder: Path) -> None:
    data = dealt(source="adult", path=str(adult_folder), column="sex", drop=("fnlwgt",))
    assert data.names == ("sex Female", "sex Male")
    assert not any(name.startswith(("sex", "fnlwgt")) for name in data.features)
    assert data.public_assumptions == ("adult: the agents are the values of column 'sex' that occur in the file",)
    with pytest.raises(DataError, match="no column 'gender'"):
        dealt(source="adult", path=str(adult_folder), column="gender")


def test_adult_with_a_strange_label_is_an_error(adult_folder: Path) -> None:
    (adult_folder / "adult.data").write_text(ADULT[0].replace("<=50K", "rich"))
    with pytest.raises(DataError, match="row 1: label 'rich'"):
        dealt(source="adult", path=str(adult_folder / "adult.data"), agents=1)


def test_published_tests_need_their_file(adult_folder: Path) -> None:
    with pytest.raises(DataError, match=r"adult\.test"):
        dealt(source="adult", path=str(adult_folder / "adult.data"), agents=1, test="published")


BANK = (
    '56;"housemaid";"married";"basic.4y";"no";"no";"no";"telephone";"may";"mon";261;1;999;0;"nonexistent";1.1;93.994;'
    '-36.4;4.857;5191;"no"\n'
    '37;"services";"married";"unknown";"no";"yes";"no";"cellular";"nov";"fri";9000;1;3;1;"success";-1.1;94.767;-50.8;'
    '1.028;4963.6;"yes"\n'
)


def test_bank(tmp_path: Path) -> None:
    path = tmp_path / "bank-additional-full.csv"
    path.write_text(";".join(f'"{name}"' for name in (*bank.PLAN, "y")) + "\n" + BANK)
    data = dealt(source="bank", path=str(tmp_path), agents=1, held_out=0.0)
    assert data.record == "one client"
    assert sorted(data.shards[0].y) == [-1.0, 1.0]
    check_bounds(data)
    without = dealt(source="bank", path=str(path), agents=1, drop=("duration",))
    assert without.dimension == data.dimension - 1


CONNECTIONS = (
    "0,tcp,http,SF,181,5450,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,8,8,0.00,0.00,0.00,0.00,1.00,0.00,0.00,9,9,1.00,0.00,0.11,"
    "0.00,0.00,0.00,0.00,0.00,normal.\n"
    "0,icmp,ecr_i,SF,1032,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,511,511,0.00,0.00,0.00,0.00,1.00,0.00,0.00,255,255,1.00,"
    "0.00,1.00,0.00,0.00,0.00,0.00,0.00,smurf.\n"
    "58329,udp,other,SF,693375640,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,1,0.00,0.00,0.00,0.00,1.00,0.00,0.00,255,1,0.00,"
    "0.85,1.00,0.00,0.00,0.00,0.00,0.00,satan.\n"
)


@pytest.mark.parametrize(
    ("source", "name", "text", "words"),
    [
        ("credit-card", "creditcard.csv", "a,b,c\n1,2,3\n", ["no column 'Time'", "data.source = 'credit-card'", "V28"]),
        (
            "bank",
            "bank-additional-full.csv",
            "age;y\n1;yes\n",
            ["no column 'job'", "data.source = 'bank'", "euribor3m"],
        ),
        ("kddcup99", "kddcup.data", "a,b,c\n1,2,3\n", ["row 1", "3 cells where 42 were expected"]),
        ("adult", "adult.data", "a,b,c\n1,2,3\n", ["row 1", "3 cells where 15 were expected"]),
    ],
)
def test_another_file_is_refused_by_its_columns(
    source: str, name: str, text: str, words: list[str], tmp_path: Path
) -> None:
    for file in (name, "adult.test"):
        (tmp_path / file).write_text(text)
    with pytest.raises(DataError) as caught:
        dealt(source=source, path=str(tmp_path), agents=1)
    assert [word for word in words if word not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["kddcup.data_10_percent", "kddcup.data", "kddcup.data_10_percent.gz"])
def test_kddcup99(name: str, tmp_path: Path) -> None:
    packed = gzip.compress(CONNECTIONS.encode()) if name.endswith(".gz") else CONNECTIONS.encode()
    (tmp_path / name).write_bytes(packed)
    data = dealt(source="kddcup99", path=str(tmp_path), agents=1, held_out=0.0)
    assert data.record == "one connection"
    assert data.dimension == 123
    [shard] = data.shards
    assert sorted(shard.y) == [-1.0, 1.0, 1.0]
    [ordinary] = shard.x[shard.y == -1.0]
    assert {data.features[k] for k in np.flatnonzero(ordinary)} >= {"protocol_type=tcp", "service=http", "flag=SF"}
    raw = dealt(source="kddcup99", path=str(tmp_path), agents=1, held_out=0.0, row_scaling="none")
    column = raw.shards[0].x[:, raw.features.index("src_bytes")]
    assert sorted(column) == [0.0181, 0.1032, 1.0], "values above the cap are cut"
    check_bounds(data)
    assert data.public_assumptions == ()


def test_a_connection_of_another_kind_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "kddcup.data"
    path.write_text(CONNECTIONS.replace(",http,", ",gossip,"))
    with pytest.raises(DataError, match=r"row 1, column 'service': 'gossip' is not one of its levels"):
        dealt(source="kddcup99", path=str(path), agents=1)
    path.write_text(CONNECTIONS.replace(",normal.", ""))
    with pytest.raises(DataError, match="row 1: 41 cells where 42 were expected"):
        dealt(source="kddcup99", path=str(path), agents=1)


def test_credit_card(tmp_path: Path) -> None:
    components = [f"V{k}" for k in range(1, 29)]
    rows = [["0", *["-1.36"] * 28, "149.62", "0"], ["172792", *["-30.5", "22"] * 14, "25691.16", "1"]]
    lines = [
        ",".join(f'"{name}"' for name in ("Time", *components, "Amount", "Class")),
        *(",".join([*cells[:-1], f'"{cells[-1]}"']) for cells in rows),
    ]
    (tmp_path / "creditcard.csv").write_text("\n".join(lines) + "\n")
    data = dealt(source="credit-card", path=str(tmp_path), agents=1, held_out=0.0)
    assert data.record == "one payment"
    assert data.dimension == 31
    [shard] = data.shards
    assert sorted(shard.y) == [-1.0, 1.0]
    assert any("principal components of all payments" in sentence for sentence in data.public_assumptions)
    raw = dealt(source="credit-card", path=str(tmp_path), agents=1, held_out=0.0, row_scaling="none")
    [fraud] = raw.shards[0].x[raw.shards[0].y == 1.0]
    assert fraud.tolist() == pytest.approx([1.0, 172792 / 172800, *[-1.0, 1.0] * 14, 1.0])
    check_bounds(data)
    (tmp_path / "creditcard.csv").write_text("\n".join(lines).replace('"1"', '"2"'))
    with pytest.raises(DataError, match="row 2: label '2' is neither '1' nor '0'"):
        dealt(source="credit-card", path=str(tmp_path), agents=1)


def test_every_plan_bounds_its_features() -> None:
    for plan in (adult.PLAN, bank.PLAN, kddcup99.PLAN, credit_card.PLAN, schools.PLAN):
        for name, rule in plan.items():
            x = rule.encode(name, [str(getattr(rule, "high", getattr(rule, "levels", ("",))[0]))] * 2, 1)
            assert np.abs(x).max(initial=0.0) <= 1.0


# --- synthetic -------------------------------------------------------------------------------------------------------


def test_synthetic_follows_its_law() -> None:
    data = dealt(source="synthetic", dimension=20, feature_scale=2.0)
    targets = np.asarray(data.similarity)
    assert targets.shape == (100, 20)
    assert np.all(targets[:, 2:] == 0)
    sizes = [s.records for s in data.shards]
    assert min(sizes) >= 10
    assert max(sizes) <= 100
    check_bounds(data)
    x = np.vstack([s.x for s in data.shards])
    # Entries are uniform in [-2, 2]: their mean square is 4/3, its deviation here about 0.004.
    assert abs(np.mean(x**2) - 4 / 3) < 0.02
    wrong = [np.mean(np.where(s.x @ t >= 0, 1.0, -1.0) != s.y) for s, t in zip(data.shards, targets, strict=True)]
    # About 5,500 labels, each flipped with 0.05: the deviation of the share is 0.003.
    assert abs(np.average(wrong, weights=sizes) - 0.05) < 0.015
    assert all(
        np.all(np.where(s.x_test @ t >= 0, 1.0, -1.0) == s.y_test) for s, t in zip(data.shards, targets, strict=True)
    )


def test_synthetic_test_labels_may_be_flipped() -> None:
    data = dealt(source="synthetic", agents=10, dimension=2, flips=0.5, test_labels="flipped", records=(0, 3))
    targets = np.asarray(data.similarity)
    share = [
        np.mean(np.where(s.x_test @ t >= 0, 1.0, -1.0) == s.y_test) for s, t in zip(data.shards, targets, strict=True)
    ]
    # 1,000 fair coins: the deviation of the share is 0.016.
    assert abs(np.mean(share) - 0.5) < 0.08


def test_synthetic_feature_law_is_near_the_eigenvalues() -> None:
    data = dealt(source="synthetic", dimension=50)
    assert data.feature_law is not None
    assert data.feature_law(50) == pytest.approx(4 / 3)
    assert data.feature_law(0) == 0.0
    ratios = []
    for shard in data.shards:
        largest = np.linalg.norm(shard.x, 2) ** 2 / shard.records
        ratios.append(largest / data.feature_law(shard.records))
    # Marchenko and Pastur's edge holds for many dimensions; at p = 50 it is a little above the eigenvalue.
    assert 0.85 < np.mean(ratios) < 1.02
    assert max(ratios) < 1.25


def test_synthetic_needs_two_dimensions() -> None:
    with pytest.raises(DataError, match=r"data\.dimension is 1"):
        dealt(source="synthetic", dimension=1)


# --- MovieLens -------------------------------------------------------------------------------------------------------

USERS, FILMS = 12, 30


def movielens_lines() -> list[str]:
    random = np.random.default_rng(5)
    taste = random.standard_normal((USERS, 2)) @ random.standard_normal((2, FILMS))
    lines = []
    for user in range(USERS):
        for film in random.choice(FILMS, size=20, replace=False):
            lines.append(f"{user + 1}\t{film + 1}\t{int(np.clip(round(3.5 + taste[user, film]), 1, 5))}\t0")
    random.shuffle(lines)
    return lines


@pytest.fixture
def films(tmp_path: Path) -> Path:
    (tmp_path / "ml-100k.inter").write_text(
        "user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + "\n".join(movielens_lines())
    )
    return tmp_path


def test_movielens(films: Path) -> None:
    data = dealt(source="movielens-100k", path=str(films), dimension=3, private=True, norm="l2")
    assert data.names == tuple(f"user {u + 1}" for u in range(USERS))
    assert data.dimension == 4
    assert data.metric == "rmse"
    assert data.record == "one rating"
    assert all((s.records, len(s.y_test)) == (16, 4) for s in data.shards)
    assert set(np.concatenate([s.y for s in data.shards])) <= {-2.5, -1.5, -0.5, 0.5, 1.5}
    assert len(data.public_assumptions) == 1
    assert "all users' training ratings" in data.similarity_assumption
    check_bounds(data)
    intercepts = np.unique(np.concatenate([s.x[:, 0] for s in data.shards]))
    norms = np.concatenate([row_norms(s.x[:, 1:], "l2") for s in data.shards])
    assert len(intercepts) == 1
    assert 0.5 < intercepts[0] / norms.mean() < 2.0
    assert data.similarity.shape[0] == USERS
    assert data.similarity.nnz == USERS * 16
    assert data.feature_law is not None
    assert np.median(norms) ** 2 < data.feature_law(5) <= data.row_bounds["l2"] ** 2


def test_movielens_features_explain_the_training_ratings(films: Path) -> None:
    data = dealt(source="movielens-100k", path=str(films), dimension=3)
    left, all_ = 0.0, 0.0
    for shard in data.shards:
        model, *_ = np.linalg.lstsq(shard.x, shard.y, rcond=None)
        left += float(np.sum((shard.x @ model - shard.y) ** 2))
        all_ += float(np.sum(shard.y**2))
    assert left < 0.2 * all_


def test_user_means_are_refused_in_a_private_run(films: Path) -> None:
    given: dict[str, Any] = {"source": "movielens-100k", "path": str(films), "centring": "user-mean", "dimension": 3}
    with pytest.raises(DataError, match=r"data\.centring is \"user-mean\".*as_published"):
        dealt(**given, private=True)
    assert any("mean training rating" in s for s in dealt(**given, private=True, as_published=True).public_assumptions)
    data = dealt(**given)
    assert "intercept" not in data.features
    assert max(abs(float(s.y.mean())) for s in data.shards) < 1e-12


def test_a_replaced_rating_changes_one_label_but_all_with_user_means(tmp_path: Path) -> None:
    lines = movielens_lines()
    changes = {}
    for centring in ("none", "user-mean"):
        labels = []
        for last in ("1", "5"):
            user, film, _, time = lines[0].split("\t")
            (tmp_path / "u.data").write_text("\n".join(["\t".join([user, film, last, time]), *lines[1:]]))
            data = dealt(source="movielens-100k", path=str(tmp_path), dimension=3, centring=centring, held_out=0.0)
            labels.append(np.concatenate([s.y for s in data.shards]))
        changes[centring] = int(np.sum(labels[0] != labels[1]))
    assert changes == {"none": 1, "user-mean": 20}


def test_the_first_users_alone(films: Path) -> None:
    assert dealt(source="movielens-100k", path=str(films), dimension=3, agents=5).names[-1] == "user 5"


def test_ratings_outside_1_to_5_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "u.data").write_text("1\t1\t6\t0\n1\t2\t3\t0\n")
    with pytest.raises(DataError, match="ratings are 1 to 5, found 3 to 6"):
        dealt(source="movielens-100k", path=str(tmp_path))
