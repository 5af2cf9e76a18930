"""Causes of errors of other programs: what happened and what to do, by codes, classes and words."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForeignCause:
    """What happened and what to do. If ``permanent``, calls fail until somebody acts."""

    what: str
    advice: str
    permanent: bool = True

    def __str__(self) -> str:
        return f"{self.what}: {self.advice}"


def _by_code(rows: Mapping[str, tuple[str, str]], *, permanent: bool) -> dict[str, ForeignCause]:
    """The cause of each code. Each row has one or several codes, what happened, and the advice."""
    causes = {}
    for codes, (what, advice) in rows.items():
        for code in codes.split(" | "):
            causes[code] = ForeignCause(what, advice, permanent)
    return causes


KNOWN_CAUSES = _by_code(
    {
        "EACCES | EPERM | SQLITE_PERM | PermissionException": (
            "permission denied",
            "give this account access",
        ),
        "EROFS": ("the file system is read-only", "mount it writable, or name another folder"),
        "EISDIR": ("it is a folder", "name a file"),
        "ENOTDIR": ("a part of the path is no folder", "check the path"),
        "ConversionException | OutOfRangeException": (
            "a value does not fit the type of its column",
            "write each column with one type",
        ),
        "TypeMismatchException | InvalidTypeException | BinderException | NotImplementedException": (
            "a column has a type that cannot be used there",
            "write ids as integers or text, and lists as arrays of ids",
        ),
        "ArrowNotImplementedError | ArrowTypeError": (
            "a column has a type that cannot be used there",
            "write ids as integers or text, and lists as arrays of ids",
        ),
        "InvalidInputException": (
            "its content does not have the expected format",
            "write it again in that format",
        ),
        "ArrowInvalid": (
            "its content does not have the expected format or types",
            "write it again with one type in each column",
        ),
        "ArrowCapacityError": (
            "one of its parts contains more than 2 GiB of text",
            "write smaller files or shorter texts",
        ),
        "UnicodeError": ("a text cannot be written or read as UTF-8", "correct the text"),
        "ValueError": ("the path has a character that no path may have", "correct the path"),
        "EOFError": (
            "its compressed data ends too early, so the file is cut off or still being written",
            "write it again",
        ),
        "BadGzipFile": (
            "it contains no gzip data, although its name says so",
            "correct its name, or compress it",
        ),
        "InternalException | FatalException": (
            "DuckDB reported an internal error",
            "report this fault of rankwatch",
        ),
        "ParserException": (
            "DuckDB does not understand the statement",
            "report this fault of rankwatch",
        ),
        "PermanentRedirect | AuthorizationHeaderMalformed": (
            "the bucket is in another region",
            "set its region in the environment",
        ),
        "28 | 1045": ("the server refused the user or the password", "correct them in url"),
        "3D | 1049": ("the server has no such database", "correct its name in url"),
        "42501 | 1044 | 1142 | 1143": (
            "the user of the database may not read the table",
            "grant the user the right to select from the table",
        ),
        "3F | 42P01 | 1146": (
            "there is no such table",
            "check the tables' names and schemas in the query or table",
        ),
        "42703 | 1054": (
            "there is no such column",
            "check the columns' names in the query and in the options",
        ),
        "42804 | 42883 | 42P18 | 1305": (
            "no function or operator accepts values of these types",
            "cast one of them in the query, such as CAST(user_id AS text)",
        ),
        "42702": (
            "a column of this name is in more than one table of the query",
            "write the table's name before the column's name",
        ),
        "42601 | 1064": (
            "the query is no valid SQL of this database",
            "run the query by hand to see the place of the error",
        ),
        "25 | 1290 | 1792 | SQLITE_AUTH | SQLITE_READONLY": (
            "the query would do more than read from the database",
            "write a query with one SELECT",
        ),
        "22 | 1292 | 1366 | SQLITE_MISMATCH": (
            "a value cannot be converted to the type that the query asks for",
            "check the values in the options, or cast the column to text in the query",
        ),
        "22003 | 1264 | 1690": (
            "a number is out of the range of its type",
            "cast it to a wider type in the query",
        ),
        "22012": ("the query divides by zero", "exclude these rows, or use NULLIF"),
        "22021 | 22P05": (
            "a text is not valid in the database's encoding",
            "correct the text, or the encoding of the connection",
        ),
        "4038": (
            "a text is no JSON, and the query reads it as JSON",
            "exclude these rows with json_valid",
        ),
        "21 | 1242": ("a subquery returned more than one row", "limit the subquery to one row"),
        "0A": (
            "the database does not support a part of the query",
            "run the query by hand to see the database's message",
        ),
        "2026": (
            "no TLS connection was made",
            "check the port, and that the server takes TLS there",
        ),
        "SQLITE_CANTOPEN": (
            "the file cannot be opened",
            "give this account access to the file and its folder",
        ),
        "SQLITE_NOTADB": ("the file is not a database of SQLite", "check the path in url"),
        "SQLITE_CORRUPT": ("the file is damaged", "restore it from a backup"),
        "SQLITE_TOOBIG": ("a value is larger than SQLite's limit", "select shorter values"),
    },
    permanent=True,
) | _by_code(
    {
        "ConnectionRefusedError": (
            "the connection was refused",
            "check that the server runs and listens there",
        ),
        "ECONNRESET | EPIPE | ConnectionClosedError | 08 | 2006 | 2013": (
            "the server closed the connection",
            "check the server's log",
        ),
        "gaierror | 2005": ("the host name cannot be resolved", "check the host"),
        "TimeoutError | ConnectTimeoutError | ReadTimeoutError": (
            "no answer within the timeout",
            "check the network and the server",
        ),
        "EHOSTUNREACH | ENETUNREACH | EndpointConnectionError | 2003": (
            "the host cannot be reached",
            "check the network and the host",
        ),
        "ENOSPC | SQLITE_FULL": ("the disk is full", "free some space"),
        "EDQUOT": ("the quota of the disk is used up", "free some space"),
        "ENOENT": ("a file does not exist", "check the path"),
        "EMFILE | ENFILE": ("too many files are open", "raise the limit of open files (ulimit -n)"),
        "ENOMEM | ArrowMemoryError | SQLITE_NOMEM": (
            "there is too little memory",
            "give the process more memory",
        ),
        "EIO | SQLITE_IOERR": (
            "the disk reported an input/output error",
            "look at the system's log",
        ),
        "ESTALE": ("the network drive lost the file", "mount the drive again"),
        "IOException": ("the system could not read the data", "look at the system's log"),
        "NoCredentialsError": ("no credentials were found", "give them in the environment"),
        "PartialCredentialsError": (
            "the credentials are incomplete",
            "give all of them in the environment",
        ),
        "ExpiredToken | ExpiredTokenException | TokenRefreshRequired": (
            "the credentials have expired",
            "give new credentials in the environment",
        ),
        "InvalidAccessKeyId | SignatureDoesNotMatch | InvalidToken": (
            "the store refused the credentials",
            "check the credentials in the environment",
        ),
        "RequestTimeTooSkewed": ("this machine's clock differs from the store's", "set the clock"),
        "AccessDenied | 403": ("these credentials may not read it", "grant them the right to read"),
        "NoSuchBucket": ("the bucket does not exist", "check the path"),
        "SlowDown | 503": ("the store accepts no more requests at this moment", "try again later"),
        "53300 | 1040 | 1203 | MaxConnectionsError": (
            "the server accepts no more connections",
            "raise its limit or close other connections",
        ),
        "55P03 | 1205 | SQLITE_BUSY | SQLITE_LOCKED": (
            "it is locked by another process",
            "wait until that process has written, or end it",
        ),
        "40 | 1213": ("another transaction was given priority", "repeat the run of this slot"),
        "57": (
            "the server is starting or stopping, or an administrator ended the connection",
            "repeat the run of this slot",
        ),
        "58": ("the server could not read or write its disk", "look at the server's log"),
        "53": ("the server is out of memory or other resources", "look at the server's log"),
        "53100": ("the server's disk is full", "free some space there"),
        "XX": ("the server reported an internal error or damaged data", "look at the server's log"),
    },
    permanent=False,
)
"""Causes by name or code. A key is an error name of the system, a SQLSTATE or its first two
characters, a number of MySQL, a code of SQLite, or the name of an error's class."""


STATES_BY_WORDS = {
    "password authentication failed": "28P01",
    "no password supplied": "28P01",
    "no pg_hba.conf entry": "28",
    "FATAL:  role": "28",
    'FATAL:  database "': "3D000",
    "too many": "53300",
    "remaining connection slots": "53300",
    "starting up": "57P03",
    "shutting down": "57P01",
}
UNCONNECTED = _by_code(
    {
        "SSL was required": (
            "the server does not support TLS, and sslmode requires it",
            "set sslmode=prefer, or enable TLS on the server",
        ),
        "invalid response": (
            "the server that answers is not a database of this kind",
            "check host and port in url",
        ),
    },
    permanent=True,
) | {
    "Connection refused": KNOWN_CAUSES["ConnectionRefusedError"],
    "resolve host": KNOWN_CAUSES["gaierror"],
    "translate host name": KNOWN_CAUSES["gaierror"],
    "timeout": KNOWN_CAUSES["TimeoutError"],
    "closed the connection": KNOWN_CAUSES["EPIPE"],
    "connection is closed": KNOWN_CAUSES["EPIPE"],
    "connection is lost": KNOWN_CAUSES["EPIPE"],
    "EOF detected": KNOWN_CAUSES["EPIPE"],
}
# All these errors have the same code of SQLite, so their texts are searched.
SQLITE_WORDS = {
    "one statement at a time": KNOWN_CAUSES["25"],
    "no such table": KNOWN_CAUSES["42P01"],
    "no such column": KNOWN_CAUSES["42703"],
    **dict.fromkeys(
        ("no such function", "syntax error", "incomplete input", "unrecognized token"),
        KNOWN_CAUSES["42601"],
    ),
    "malformed JSON": KNOWN_CAUSES["4038"],
    "integer overflow": KNOWN_CAUSES["22003"],
} | _by_code(
    {
        "too many SQL variables": (
            "the statement binds more users than SQLite allows",
            "lower batch",
        ),
        "Could not decode to UTF-8": (
            "a text is not UTF-8",
            "cast the column to BLOB, or write it again as UTF-8",
        ),
    },
    permanent=True,
)
OF_REDIS = _by_code(
    {
        "AuthenticationError | AuthorizationError | NOAUTH | WRONGPASS": (
            "the server refused the user or the password",
            "correct them in url",
        ),
        "NoPermissionError | NOPERM": (
            "the user may not run this command or read this key",
            "allow it in the server's ACL",
        ),
        "ReadOnlyError | READONLY": ("the server is a read-only replica", "name the master in url"),
        "MasterNotFoundError": (
            "the sentinels have no such master",
            "check the sentinels and the service's name in url",
        ),
        "RedisClusterException": (
            "no node answers as a node of a cluster",
            "check that url names nodes of a cluster",
        ),
        "InvalidResponse": (
            "the server that answers is no Redis server",
            "check host and port in url",
        ),
        "WRONGTYPE": ("the key's type is not the one in the option type", "correct type"),
    },
    permanent=True,
) | _by_code(
    {
        "BusyLoadingError | LOADING": (
            "the server is loading its data",
            "wait until the data is loaded",
        ),
        "MaxConnectionsError": (
            "the server accepts no more connections",
            "raise its limit or close other connections",
        ),
        "OutOfMemoryError | OOM": (
            "the server has used its maxmemory",
            "raise maxmemory, or let the server evict keys",
        ),
        "ClusterDownError | CLUSTERDOWN": ("the cluster is down", "look at its nodes"),
        "MASTERDOWN": ("the replica has lost its master", "look at the servers"),
        "BUSY": ("the server is busy with a script", "end the script"),
    },
    permanent=False,
)
OF_REDIS_CONNECTIONS = {
    "TimeoutError": KNOWN_CAUSES["TimeoutError"],
    "ConnectionError": KNOWN_CAUSES["EPIPE"],
} | _by_code(
    {
        "ValueError": (
            "an answer does not have the format of the command",
            "check that url names a Redis server",
        ),
        "DataError": ("the client cannot send such a key", "check key and field"),
    },
    permanent=True,
)
