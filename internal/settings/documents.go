package settings

import (
	"slices"

	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/spec"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// The four files of a tenant.
const (
	fileConfig   = "config.json"
	filePolicies = "policies.json"
	filePipes    = "pipes.json"
	fileRoles    = "roles.json"
)

// fileNames lists the four files in the order in which they are reported.
func fileNames() []string { return []string{fileConfig, filePolicies, filePipes, fileRoles} }

// PolicyTestSuffix ends the names of policy tests. They may stand beside the
// four files; the server does not read them.
const PolicyTestSuffix = ".test.json"

// rolesDocument is roles.json.
type rolesDocument struct {
	Roles []string `json:"roles"`
}

// roleFields lists the keys of roles.json.
var roleFields = []spec.Field{
	{Key: "roles", Max: "1000", Doc: "The roles that policies, pipes and tokens may name."},
	{Key: "roles[]", Max: "128", Doc: "A name, exact and case-sensitive."},
}

// documents is a tenant's four files, decoded.
type documents struct {
	config   Config
	policies policy.Document
	pipes    pipes.Document
	roles    rolesDocument
}

// source is one file's content and what reading it found.
type source struct {
	name     string
	doc      *strictjson.Document
	findings []Finding
	// unread are the values that could not be read.
	unread []strictjson.Fault
}

func (s *source) error(path, message string) {
	s.add(SeverityError, []strictjson.Fault{{Path: path, Message: message}})
}

func (s *source) warn(path, message string) {
	s.add(SeverityWarning, []strictjson.Fault{{Path: path, Message: message}})
}

// add keeps what was found about the values, but for what only follows from one
// that could not be read.
func (s *source) add(severity string, found []strictjson.Fault) {
	own := slices.DeleteFunc(slices.Clone(found), func(f strictjson.Fault) bool { return s.follows(f.Path) })
	s.findings = append(s.findings, FromFaults(severity, s.name, s.doc, own)...)
}

// follows reports whether what is found at path may only follow from a value
// that could not be read.
func (s *source) follows(path string) bool {
	return slices.ContainsFunc(s.unread, func(f strictjson.Fault) bool { return f.Explains(path) })
}

// open reads a file into what into points to. It returns nil when the file is
// missing or was not read to its end.
func open[T any](k *compiler, name string, fields spec.Of[T], into *T) *source {
	data, ok := k.content.files[name]
	if !ok {
		return nil
	}
	doc, faults := strictjson.Parse(data)
	s := &source{name: name, doc: doc, unread: fields.Decode(doc, into)}
	s.findings = FromFaults(SeverityError, name, doc, append(faults, s.unread...))
	k.sources = append(k.sources, s)
	if !doc.Whole() {
		return nil
	}
	return s
}
