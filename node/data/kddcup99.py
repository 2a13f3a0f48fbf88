"""KDD Cup 1999 (Hettich and Bay 1999): which network connections are an intrusion.

The file is ``kddcup.data`` as published, without a header: 41 columns, and a label that ends in a full stop. Public
bounds are the documented ranges (rates, windows of 100 connections or two seconds) or stated caps, at which longer
values are cut.
"""

from __future__ import annotations

from node.configuration.data import DataSection
from node.data import people
from node.data.columns import Number, Plan, Words
from node.data.csv_file import read_columns
from node.data.paths import existing, one_of
from node.data.table import Table


def _words(levels: str) -> Words:
    return Words(tuple(levels.split()))


def _upto(high: float) -> Number:
    return Number(0.0, high, start=0.0, clip=True)


_SERVICES = (
    "aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs exec finger ftp ftp_data "
    "gopher harvest hostnames http http_2784 http_443 http_8001 icmp imap4 IRC iso_tsap klogin kshell ldap link login "
    "mtp name netbios_dgm netbios_ns netbios_ssn netstat nnsp nntp ntp_u other pm_dump pop_2 pop_3 printer private "
    "red_i remote_job rje shell smtp sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time urh_i urp_i uucp "
    "uucp_path vmnet whois X11 Z39_50"
)

PLAN: Plan = {
    "duration": _upto(10_000),
    "protocol_type": _words("icmp tcp udp"),
    "service": _words(_SERVICES),
    "flag": _words("OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH"),
    "src_bytes": _upto(10_000),
    "dst_bytes": _upto(10_000),
    "land": _upto(1),
    "wrong_fragment": _upto(3),
    "urgent": _upto(3),
    "hot": _upto(30),
    "num_failed_logins": _upto(5),
    "logged_in": _upto(1),
    "num_compromised": _upto(10),
    "root_shell": _upto(1),
    "su_attempted": _upto(2),
    "num_root": _upto(10),
    "num_file_creations": _upto(10),
    "num_shells": _upto(2),
    "num_access_files": _upto(10),
    "num_outbound_cmds": _upto(1),
    "is_host_login": _upto(1),
    "is_guest_login": _upto(1),
    "count": _upto(511),
    "srv_count": _upto(511),
    "serror_rate": _upto(1),
    "srv_serror_rate": _upto(1),
    "rerror_rate": _upto(1),
    "srv_rerror_rate": _upto(1),
    "same_srv_rate": _upto(1),
    "diff_srv_rate": _upto(1),
    "srv_diff_host_rate": _upto(1),
    "dst_host_count": _upto(255),
    "dst_host_srv_count": _upto(255),
    "dst_host_same_srv_rate": _upto(1),
    "dst_host_diff_srv_rate": _upto(1),
    "dst_host_same_src_port_rate": _upto(1),
    "dst_host_srv_diff_host_rate": _upto(1),
    "dst_host_serror_rate": _upto(1),
    "dst_host_srv_serror_rate": _upto(1),
    "dst_host_rerror_rate": _upto(1),
    "dst_host_srv_rerror_rate": _upto(1),
}

FILES = tuple(
    name + end
    for end in ("", ".gz")
    for name in ("kddcup.data_10_percent", "kddcup.data_10_percent_corrected", "kddcup.data", "kddcup.data.corrected")
)
LABELS = ("intrusion", "normal")
"""What becomes 1, and what becomes -1."""


def load(section: DataSection, norm: str) -> Table:
    """Load KDD Cup 1999; ``data.path`` is the file, plain or gzip, or the folder that holds it.

    A label other than ``normal.`` is a kind of intrusion, and becomes 1.
    """
    columns = read_columns(one_of(existing(section.path or ""), FILES), header=(*PLAN, "label"))
    kinds = [label.rstrip(".") for label in columns["label"]]
    return people.table(
        columns,
        people.without(PLAN, section),
        people.signs([LABELS[kind == "normal"] for kind in kinds], *LABELS),
        section,
        norm=norm,
        intercept=False,
        scaling="record",
        record="one connection",
    )
