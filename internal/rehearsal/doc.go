// Package rehearsal shows what a policy would do, without a server: it explains
// what one caller may do with one table, and runs tests that say what callers
// should see. It asks the same grants that serve requests.
package rehearsal
