package settings

import (
	"strings"

	"github.com/wavehouse/wavehouse/internal/policy"
)

// PolicyTestSuffix ends the names of policy tests. They may stand beside the
// four files; the server does not read them.
const PolicyTestSuffix = ".test.json"

// PolicyDocument returns policies.json as it was written, for a snapshot of
// Validate; a Registry's snapshots do not keep it and return nil. It is shared
// and must not be changed.
func (s *Snapshot) PolicyDocument() *policy.Document { return s.document }

func isPolicyTest(e entry) bool { return !e.dir && strings.HasSuffix(e.name, PolicyTestSuffix) }
