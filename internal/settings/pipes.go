package settings

import (
	"github.com/wavehouse/wavehouse/internal/pipes"
)

// pipes compiles pipes.json.
func (k *compiler) pipes() {
	s := k.open(filePipes, &k.docs.pipes)
	if s == nil {
		return
	}
	var roles []string
	if k.rolesKnown {
		roles = append([]string{}, k.docs.roles.Roles...)
	}
	compiled, faults, warnings := pipes.Compile(&k.docs.pipes, roles, s.doc.Has)
	s.findings = append(s.findings, fromFaults(SeverityError, s.name, s.doc, faults)...)
	s.findings = append(s.findings, fromFaults(SeverityWarning, s.name, s.doc, warnings)...)
	k.pipeSet = compiled
}
