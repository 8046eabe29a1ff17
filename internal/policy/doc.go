// Package policy decides what a role may read and insert. A policies.json
// document is compiled once per settings snapshot into immutable grants; a
// request looks its grant up and asks it. Everything fails closed: what the
// document does not allow is denied, and a rule that this version cannot
// enforce is refused when the document is loaded.
package policy
