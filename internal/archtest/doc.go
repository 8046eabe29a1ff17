// Package archtest holds the source tree to the rules of docs/architecture.md:
// who may import whom, which package owns which library, and the few habits
// that a linter does not know. It reads the source with go/parser and runs as
// an ordinary test; every violation says why the rule exists.
package archtest
