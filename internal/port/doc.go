// Package port rewrites a project from controller-runtime to the framework of Kapok.
//
// The framework has the names of controller-runtime, with the same types and meanings, in fewer
// packages. A rewritten file has other imports and, for a few functions, other names; every other
// byte stays the same. A use of controller-runtime that has no equivalent in the framework is a
// Finding, with its position and what to do.
//
// A file that was formatted by gofmt stays formatted. Rewriting is idempotent.
//
// The package starts no goroutine and has no locks.
package port

//go:generate go run ./gen
