package topology

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	// Where names the stream, or the stream and its durable.
	Where string
	// What says what is found, and what is wanted.
	What string
	// Required: rows could be lost, stuck or seen twice. Without it the finding is
	// a recommendation.
	Required bool
	// Transient: it may heal by itself.
	Transient bool
}

func (f Finding) String() string {
	kind := "recommended"
	if f.Required {
		kind = "required"
	}
	return kind + ": " + f.Where + ": " + f.What
}

// Error says that a cluster is not as WaveHouse needs it, and lists every
// finding, the recommended ones as well.
type Error struct{ Findings []Finding }

func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Findings)+1)
	lines = append(lines, "the NATS cluster is not as it must be; its operator changes it (wavehouse mq manifests prints what is wanted)")
	for _, f := range e.Findings {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// Report is what a verification saw.
type Report struct {
	Findings   []Finding
	Partitions []PartitionState
	// AckWait is the shortest of all shards, DuplicateWindow of all partitions; 0
	// where none was seen.
	AckWait, DuplicateWindow time.Duration
}

// Err is an *Error when something required is missing.
func (r *Report) Err() error {
	if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Required }) {
		return nil
	}
	return &Error{Findings: r.Findings}
}

func (r *Report) add(where string, required bool, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Where: where, What: fmt.Sprintf(format, args...), Required: required})
}

// rules collects what is wrong at one place.
type rules struct {
	report *Report
	where  string
}

func (r *Report) at(where string) rules { return rules{r, where} }

// must finds what could cost rows unless ok.
func (r rules) must(ok bool, format string, args ...any) {
	if !ok {
		r.report.add(r.where, true, format, args...)
	}
}

// should finds what is advised against unless ok.
func (r rules) should(ok bool, format string, args ...any) {
	if !ok {
		r.report.add(r.where, false, format, args...)
	}
}
