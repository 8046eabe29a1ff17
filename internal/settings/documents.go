package settings

import (
	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/policy"
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

// Keys that every file may have at its root: the schema for editors and a
// comment for people, a string or a list of strings. They mean nothing here.
const (
	keySchema  = "$schema"
	keyComment = "$comment"
)

// Bounds of roles.json.
const (
	maxRoles    = 1000
	maxRoleName = 128 // bytes
)

// rolesDocument is roles.json.
type rolesDocument struct {
	Roles []string `json:"roles"`
}

// source is one file's content and what reading it found.
type source struct {
	name     string
	data     []byte
	doc      *strictjson.Document
	findings []Finding
}

func (s *source) error(path, message string) {
	s.add(SeverityError, path, message)
}

func (s *source) warn(path, message string) {
	s.add(SeverityWarning, path, message)
}

func (s *source) add(severity, path, message string) {
	s.findings = append(s.findings, Finding{
		Severity: severity, File: s.name, Path: path, Line: s.doc.Line(path), Message: message,
	})
}

// decode reads the file into what into points to; it is not ok when the
// content cannot be judged any further.
func (s *source) decode(into any) (ok bool) {
	doc, faults := strictjson.Parse(s.data)
	s.doc = doc
	faults = append(faults, doc.Decode(into, keySchema, keyComment)...)
	s.findings = append(s.findings, fromFaults(SeverityError, s.name, doc, faults)...)
	if len(faults) > 0 {
		return false
	}
	s.rootKeys()
	return true
}

// rootKeys checks the form of the keys that mean nothing.
func (s *source) rootKeys() {
	var schema string
	if s.doc.Has(keySchema) && len(s.doc.DecodeAt(keySchema, &schema)) > 0 {
		s.error(keySchema, "want a string")
	}
	var line string
	var lines []string
	if s.doc.Has(keyComment) && len(s.doc.DecodeAt(keyComment, &line)) > 0 && len(s.doc.DecodeAt(keyComment, &lines)) > 0 {
		s.error(keyComment, "want a string or a list of strings")
	}
}

// documents is a tenant's four files, decoded.
type documents struct {
	config   Config
	policies policy.Document
	pipes    pipes.Document
	roles    rolesDocument
}
