// Package settings owns the settings directory: its documents and what can be
// wrong with them, the immutable snapshots that requests are served from, and
// the registry that reloads them while serving.
package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Severities of a finding.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

// Finding is one thing that is wrong, or doubtful, about a settings directory.
type Finding struct {
	Severity string `json:"severity"`
	// File is relative to the settings directory; "" is the directory itself.
	File string `json:"file"`
	// Path is the JSON path in the file; "" is the whole file.
	Path string `json:"path"`
	// Line is 1-based, 0 when the finding has none.
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// String returns the finding on one line: file:line: severity: path: message.
func (f Finding) String() string {
	place := f.File
	if place == "" {
		place = "settings directory"
	}
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, f.Line)
	}
	if f.Path != "" {
		return fmt.Sprintf("%s: %s: %s: %s", place, f.Severity, f.Path, f.Message)
	}
	return fmt.Sprintf("%s: %s: %s", place, f.Severity, f.Message)
}

// HasErrors reports whether a finding is more than a warning.
func HasErrors(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == SeverityError })
}

// FindingsError is the refusal of a settings directory.
type FindingsError struct{ Findings []Finding }

// Error lists the errors among the findings, one a line.
func (e *FindingsError) Error() string {
	var b strings.Builder
	b.WriteString("settings refused")
	for _, f := range e.Findings {
		if f.Severity == SeverityError {
			b.WriteString("\n  " + f.String())
		}
	}
	return b.String()
}

// FromFaults turns what a reader of a file found to findings. A fault without a
// line gets the one of its path.
func FromFaults(severity, file string, doc *strictjson.Document, faults []strictjson.Fault) []Finding {
	var findings []Finding
	for _, f := range faults {
		findings = append(findings, Finding{
			Severity: severity, File: file, Path: f.Path, Line: cmp.Or(f.Line, doc.Line(f.Path)), Message: f.Message,
		})
	}
	return findings
}

// sortFindings puts errors first, then the order of the files and their lines.
func sortFindings(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path))
	})
}

// maxFindings bounds what is kept of one tenant's findings.
const maxFindings = 500

// bounded cuts sorted findings at the bound, and says so.
func bounded(findings []Finding) []Finding {
	if len(findings) <= maxFindings {
		return findings
	}
	more := Finding{Severity: findings[maxFindings].Severity, Message: fmt.Sprintf("there are %d more findings; they are not shown", len(findings)-maxFindings)}
	return append(slices.Clone(findings[:maxFindings]), more)
}
