package clickhouse

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

const (
	headerExceptionCode = "X-ClickHouse-Exception-Code"
	headerExceptionTag  = "X-ClickHouse-Exception-Tag"
	headerQueryID       = "X-ClickHouse-Query-Id"
	headerSummary       = "X-ClickHouse-Summary"
	// maxExceptionBytes bounds what is read of an exception: some quote the
	// statement.
	maxExceptionBytes = 64 << 10
	// maxMessageBytes bounds what is kept of one.
	maxMessageBytes = 4 << 10
	// leastScrubbed is the shortest password looked for in messages: a shorter
	// one is found in ordinary words.
	leastScrubbed = 4
)

var (
	// exceptionPattern is how ClickHouse words an exception.
	exceptionPattern = regexp.MustCompile(`Code: (\d+)\. DB::Exception: `)
	// versionPattern is what it puts at its end.
	versionPattern = regexp.MustCompile(`\s*\(version [^()]*(\([^()]*\))?\)\s*$`)
)

// readException judges an answer that is a failure: one with another status
// than 200, or with the header of an exception.
func (p *Pool) readException(resp *http.Response) *Error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxExceptionBytes))
	code, _ := strconv.Atoi(resp.Header.Get(headerExceptionCode))
	bodyCode, message, found := parseException(string(text))
	if code == 0 && found {
		code = bodyCode
	}
	if code != 0 {
		e := p.exception(code, message, resp.StatusCode)
		e.QueryID, e.Summary = resp.Header.Get(headerQueryID), parseSummary(resp.Header.Get(headerSummary))
		return e
	}
	e := statusKind(resp.StatusCode).error(Error{
		Status: resp.StatusCode, Err: err,
		Message: "answered with status " + resp.Status + " and no exception code",
	})
	return e
}

// exception is the failure that ClickHouse itself reports.
func (p *Pool) exception(code int, message string, status int) *Error {
	message = p.scrub(message)
	return exceptionKind(code, message, p.config.Database).error(Error{Code: code, Message: message, Status: status})
}

// scrub keeps our password out of a message, should ClickHouse ever quote it.
func (p *Pool) scrub(message string) string {
	if len(p.config.Password) < leastScrubbed {
		return message
	}
	return strings.ReplaceAll(message, p.config.Password, "[HIDDEN]")
}

// parseException reads the code and the words out of an exception's text.
// Without one the message is the text itself.
func parseException(text string) (code int, message string, found bool) {
	message = strings.TrimSpace(text)
	if at := exceptionPattern.FindStringSubmatchIndex(text); at != nil {
		code, _ = strconv.Atoi(text[at[2]:at[3]])
		message, found = strings.TrimSpace(text[at[1]:]), true
	}
	// What follows an empty line is advice, such as where passwords are kept.
	message, _, _ = strings.Cut(message, "\n\n")
	message = versionPattern.ReplaceAllString(message, "")
	return code, excerpt.Cut(message, maxMessageBytes), found
}
