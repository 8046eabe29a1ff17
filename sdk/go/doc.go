// Package wavehouse is a client of a WaveHouse server: it posts events, queries
// them, runs pipes and watches tables live. It depends on nothing but the
// standard library.
//
// A Client is safe for concurrent use, holds no goroutine and needs no closing.
// Every failure of a call is an *Error, which errors.As finds.
package wavehouse
