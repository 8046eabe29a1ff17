package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// ErrNoPool says that a tenant has no pool: it is not served, or its pool did
// not fit under the ceiling, or could not be made.
var ErrNoPool = errors.New("no ClickHouse pool")

// Class groups failures by what is to be done about them.
type Class uint8

// The classes. Classify gives those a writer acts on: Rejected, Splittable,
// Unavailable, Denied, NoPool and Unknown. ClassifyRead gives those a reader is
// told of: all but Splittable.
const (
	ClassUnknown       Class = iota // no verdict
	ClassRejected                   // read and refused: the same statement is refused again
	ClassSplittable                 // too much at once: less of it may pass
	ClassUnavailable                // not now: the same statement may pass later
	ClassDenied                     // our user lacks a right
	ClassLimit                      // the reader's own limit
	ClassMisconfigured              // credentials, user or database are wrong, or what answers is no ClickHouse
	ClassNoPool                     // nothing to ask
	ClassTooLarge                   // the answer is larger than the reader may take
)

var classNames = [...]string{"unknown", "rejected", "splittable", "unavailable", "denied", "limit", "misconfigured", "no_pool", "too_large"}

// String is the class as a metric label.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return classNames[ClassUnknown]
}

// Error is a failure of ClickHouse, or of the way to it. It never holds a
// password or a statement's parameters.
type Error struct {
	Class   Class  // as Classify gives it, or ClassTooLarge
	Code    int    // ClickHouse's exception code; 0 is none
	Message string // ClickHouse's words, or ours
	Status  int    // the HTTP status; 0 when there was none
	Err     error  // the cause, when there is one
	// QueryID is what ClickHouse calls the statement, and Summary what it had done
	// when it failed; zero when it did not say.
	QueryID string
	Summary Summary
	read    Class
	table   bool
}

// Error describes the failure with its exception code.
func (e *Error) Error() string {
	switch {
	case errors.Is(e.Err, ErrAway):
		return e.Err.Error()
	case e.Code != 0:
		return fmt.Sprintf("clickhouse: code %d: %s", e.Code, e.Message)
	case e.Err != nil && e.Message != "":
		return fmt.Sprintf("clickhouse: %s: %v", e.Message, e.Err)
	case e.Err != nil:
		return fmt.Sprintf("clickhouse: %v", e.Err)
	}
	return "clickhouse: " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// verdict is what a failure means: to a writer, to a reader, and whether it is
// one table's own, so that the pool's other tables need not wait with it.
type verdict struct {
	write, read Class
	table       bool
}

// kind is a kind of failure that is met in several places.
type kind int

const (
	rejected kind = iota
	limited
	slow
	splittable
	memory
	totalMemory
	unavailable
	tableBusy
	tableDenied
	readonlyUser
	misconfigured
	bodyTooLarge
	unknown
	unlisted
	misdirected
	noPool
	tooLarge
)

var verdicts = [...]verdict{
	rejected:      {write: ClassRejected, read: ClassRejected},
	limited:       {write: ClassSplittable, read: ClassLimit},
	slow:          {write: ClassUnavailable, read: ClassLimit},
	splittable:    {write: ClassSplittable, read: ClassRejected},
	memory:        {write: ClassSplittable, read: ClassLimit},
	totalMemory:   {write: ClassSplittable, read: ClassUnavailable},
	unavailable:   {write: ClassUnavailable, read: ClassUnavailable},
	tableBusy:     {write: ClassUnavailable, read: ClassUnavailable, table: true},
	tableDenied:   {write: ClassDenied, read: ClassMisconfigured, table: true},
	readonlyUser:  {write: ClassDenied, read: ClassDenied},
	misconfigured: {write: ClassDenied, read: ClassMisconfigured},
	bodyTooLarge:  {write: ClassSplittable, read: ClassMisconfigured},
	unknown:       {write: ClassUnknown, read: ClassUnknown},
	unlisted:      {write: ClassUnknown, read: ClassRejected, table: true},
	misdirected:   {write: ClassUnknown, read: ClassMisconfigured},
	noPool:        {write: ClassNoPool, read: ClassNoPool},
	tooLarge:      {write: ClassTooLarge, read: ClassTooLarge},
}

// Exception codes whose kind depends on more than the code.
const (
	codeUnknownDatabase = 81
	codeMemoryLimit     = 241
	codeTooManyParts    = 252
)

// exceptions lists the exception codes that are judged. Only a code that is
// listed as rejected blames the rows of an INSERT: one that is not listed says
// nothing about them to a writer, whatever a release adds. A reader's statement
// is its own, and refused by either.
var exceptions = map[int]kind{
	// The rows, a value of theirs, or an expression over it.
	6:   rejected, // CANNOT_PARSE_TEXT
	7:   rejected, // INCORRECT_NUMBER_OF_COLUMNS
	9:   rejected, // SIZES_OF_COLUMNS_DOESNT_MATCH
	13:  rejected, // SIZES_OF_COLUMNS_IN_TUPLE_DOESNT_MATCH
	19:  rejected, // SIZE_OF_FIXED_STRING_DOESNT_MATCH
	20:  rejected, // NUMBER_OF_COLUMNS_DOESNT_MATCH
	25:  rejected, // CANNOT_PARSE_ESCAPE_SEQUENCE
	26:  rejected, // CANNOT_PARSE_QUOTED_STRING
	27:  rejected, // CANNOT_PARSE_INPUT_ASSERTION_FAILED
	38:  rejected, // CANNOT_PARSE_DATE
	41:  rejected, // CANNOT_PARSE_DATETIME
	43:  rejected, // ILLEGAL_TYPE_OF_ARGUMENT
	53:  rejected, // TYPE_MISMATCH
	69:  rejected, // ARGUMENT_OUT_OF_BOUND
	70:  rejected, // CANNOT_CONVERT_TYPE
	72:  rejected, // CANNOT_PARSE_NUMBER
	117: rejected, // INCORRECT_DATA
	120: rejected, // CANNOT_INSERT_VALUE_OF_DIFFERENT_SIZE_INTO_TUPLE
	128: rejected, // TOO_LARGE_ARRAY_SIZE
	130: rejected, // CANNOT_READ_ARRAY_FROM_TEXT
	131: rejected, // TOO_LARGE_STRING_SIZE
	153: rejected, // ILLEGAL_DIVISION
	169: rejected, // BAD_TYPE_OF_FIELD
	170: rejected, // BAD_GET
	190: rejected, // SIZES_OF_ARRAYS_DONT_MATCH
	248: rejected, // INVALID_PARTITION_VALUE
	321: rejected, // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE
	349: rejected, // CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN
	366: rejected, // SIZES_OF_NESTED_COLUMNS_ARE_INCONSISTENT
	376: rejected, // CANNOT_PARSE_UUID
	395: rejected, // FUNCTION_THROW_IF_VALUE_IS_NON_ZERO
	407: rejected, // DECIMAL_OVERFLOW
	441: rejected, // CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING
	467: rejected, // CANNOT_PARSE_BOOL
	469: rejected, // VIOLATED_CONSTRAINT
	563: rejected, // CANNOT_READ_MAP_FROM_TEXT
	632: rejected, // UNEXPECTED_DATA_AFTER_PARSED_VALUE
	645: rejected, // NUMBER_OF_DIMENSIONS_MISMATCHED
	675: rejected, // CANNOT_PARSE_IPV4
	676: rejected, // CANNOT_PARSE_IPV6
	691: rejected, // UNKNOWN_ELEMENT_OF_ENUM

	// A table or column that is gone, or takes no INSERT.
	8:   rejected, // THERE_IS_NO_COLUMN
	10:  rejected, // NOT_FOUND_COLUMN_IN_BLOCK
	16:  rejected, // NO_SUCH_COLUMN_IN_TABLE
	44:  rejected, // ILLEGAL_COLUMN
	47:  rejected, // UNKNOWN_IDENTIFIER
	48:  rejected, // NOT_IMPLEMENTED
	60:  rejected, // UNKNOWN_TABLE
	218: rejected, // TABLE_IS_DROPPED

	// Limits on one statement.
	158: limited, // TOO_MANY_ROWS
	159: slow,    // TIMEOUT_EXCEEDED
	160: slow,    // TOO_SLOW
	191: limited, // SET_SIZE_LIMIT_EXCEEDED
	307: limited, // TOO_MANY_BYTES
	396: limited, // TOO_MANY_ROWS_OR_BYTES

	codeMemoryLimit:  memory,    // MEMORY_LIMIT_EXCEEDED
	codeTooManyParts: tableBusy, // TOO_MANY_PARTS

	// Load, network, disk.
	74:  unavailable, // CANNOT_READ_FROM_FILE_DESCRIPTOR
	75:  unavailable, // CANNOT_WRITE_TO_FILE_DESCRIPTOR
	76:  unavailable, // CANNOT_OPEN_FILE
	173: unavailable, // CANNOT_ALLOCATE_MEMORY
	198: unavailable, // DNS_ERROR
	201: unavailable, // QUOTA_EXCEEDED
	202: unavailable, // TOO_MANY_SIMULTANEOUS_QUERIES
	203: unavailable, // NO_FREE_CONNECTION
	204: unavailable, // CANNOT_FSYNC
	209: unavailable, // SOCKET_TIMEOUT
	210: unavailable, // NETWORK_ERROR
	236: unavailable, // ABORTED
	243: unavailable, // NOT_ENOUGH_SPACE
	279: unavailable, // ALL_CONNECTION_TRIES_FAILED
	373: unavailable, // SESSION_IS_LOCKED
	394: unavailable, // QUERY_WAS_CANCELLED
	425: unavailable, // SYSTEM_ERROR
	439: unavailable, // CANNOT_SCHEDULE_TASK
	499: unavailable, // S3_ERROR
	700: unavailable, // USER_SESSION_LIMIT_EXCEEDED
	735: unavailable, // QUERY_WAS_CANCELLED_BY_CLIENT
	745: unavailable, // SERVER_OVERLOADED

	// Keeper and replicas.
	225: unavailable, // NO_ZOOKEEPER
	244: unavailable, // UNEXPECTED_ZOOKEEPER_ERROR
	999: unavailable, // KEEPER_EXCEPTION
	254: tableBusy,   // NO_ACTIVE_REPLICAS
	285: tableBusy,   // TOO_FEW_LIVE_REPLICAS
	286: tableBusy,   // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
	289: tableBusy,   // REPLICA_IS_NOT_IN_QUORUM
	319: tableBusy,   // UNKNOWN_STATUS_OF_INSERT
	369: tableBusy,   // ALL_REPLICAS_ARE_STALE
	415: tableBusy,   // ALL_REPLICAS_LOST
	416: tableBusy,   // REPLICA_STATUS_CHANGED

	// The table's own trouble.
	242: tableBusy, // TABLE_IS_READ_ONLY
	473: tableBusy, // DEADLOCK_AVOIDED
	574: tableBusy, // DISTRIBUTED_TOO_MANY_PENDING_BYTES
	692: tableBusy, // TOO_MANY_MUTATIONS

	// Who we are and what we may do.
	164: readonlyUser,  // READONLY
	497: tableDenied,   // ACCESS_DENIED
	192: misconfigured, // UNKNOWN_USER
	193: misconfigured, // WRONG_PASSWORD
	194: misconfigured, // REQUIRED_PASSWORD
	195: misconfigured, // IP_ADDRESS_NOT_ALLOWED
	291: misconfigured, // DATABASE_ACCESS_DENIED
	516: misconfigured, // AUTHENTICATION_FAILED

	codeUnknownDatabase: misconfigured, // UNKNOWN_DATABASE
}

// exceptionKind judges an exception. database is the pool's own: another
// one that is unknown is the statement's mistake, not the pool's.
func exceptionKind(code int, message, database string) kind {
	switch code {
	case codeTooManyParts:
		if strings.Contains(message, "partitions for single INSERT") {
			return splittable
		}
	case codeMemoryLimit:
		if strings.Contains(message, "(total)") {
			return totalMemory
		}
	case codeUnknownDatabase:
		if !strings.Contains(message, database) {
			return unlisted
		}
	}
	if k, listed := exceptions[code]; listed {
		return k
	}
	return unlisted
}

// statusKind judges an HTTP status that came without an exception code: it
// is a proxy's, or what answers is no ClickHouse.
func statusKind(status int) kind {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return unavailable
	case http.StatusUnauthorized, http.StatusForbidden:
		return misconfigured
	case http.StatusRequestEntityTooLarge:
		return bodyTooLarge
	}
	if status >= 300 && status < 500 {
		return misdirected
	}
	return unknown
}

// transportKind judges a failure that is not an answer.
func transportKind(err error) kind {
	var network net.Error
	switch {
	case errors.Is(err, ErrNoPool):
		return noPool
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, errPoolClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, ch.ErrAcquireConnTimeout), errors.Is(err, ch.ErrConnectionClosed),
		errors.As(err, &network):
		return unavailable
	}
	return unknown
}

func (k kind) error(e Error) *Error {
	v := verdicts[k]
	e.Class, e.read, e.table = v.write, v.read, v.table
	return &e
}

// judge finds the verdict of any error.
func judge(err error) verdict {
	if own, ok := errors.AsType[*Error](err); ok {
		return own.verdict()
	}
	if native, ok := errors.AsType[*ch.Exception](err); ok {
		return verdicts[exceptionKind(int(native.Code), native.Message, "")]
	}
	return verdicts[transportKind(err)]
}

// verdict is what e means. One that was not made here tells only its class.
func (e *Error) verdict() verdict {
	v := verdict{write: e.Class, read: e.read, table: e.table}
	if v.read == ClassUnknown {
		v.read = e.Class
	}
	if v.read == ClassSplittable {
		v.read = ClassRejected
	}
	return v
}

// Classify says what a writer is to do about err.
func Classify(err error) Class { return judge(err).write }

// ClassifyRead says what a reader is to be told about err.
func ClassifyRead(err error) Class { return judge(err).read }

// TableOwn says whether err is the trouble of the one table it was met on, so
// that the pool's other tables need not wait.
func TableOwn(err error) bool { return judge(err).table }

// Verdict is how a failed read is answered.
type Verdict struct {
	Status     int
	Code       string
	Retryable  bool
	RetryAfter time.Duration // zero when no Retry-After is sent
}

var readVerdicts = map[Class]Verdict{
	ClassRejected:      {Status: http.StatusBadRequest, Code: "clickhouse.rejected"},
	ClassLimit:         {Status: http.StatusBadRequest, Code: "clickhouse.limit_exceeded"},
	ClassDenied:        {Status: http.StatusForbidden, Code: "clickhouse.access_denied"},
	ClassMisconfigured: {Status: http.StatusBadGateway, Code: "clickhouse.misconfigured"},
	ClassTooLarge:      {Status: http.StatusBadGateway, Code: "clickhouse.response_too_large"},
	ClassUnavailable:   {Status: http.StatusServiceUnavailable, Code: "clickhouse.unavailable", Retryable: true, RetryAfter: 5 * time.Second},
	ClassNoPool:        {Status: http.StatusServiceUnavailable, Code: "clickhouse.no_pool", Retryable: true, RetryAfter: 30 * time.Second},
	ClassUnknown:       {Status: http.StatusBadGateway, Code: "clickhouse.unknown", Retryable: true},
}

// ReadVerdict says how a read that failed with err is answered.
func ReadVerdict(err error) Verdict { return readVerdicts[ClassifyRead(err)] }
