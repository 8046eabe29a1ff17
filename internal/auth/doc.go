// Package auth finds out who is calling: the operator, or a role from a token.
// It decides nothing about data; that is the policy's, which it asks on behalf
// of the caller so that every refusal has the same status and code everywhere.
package auth
