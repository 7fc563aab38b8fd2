// Package vet finds mistakes in Go types of an API and their markers that show only when a server
// gets the definitions: markers where they have no effect, keys of lists that do not exist,
// defaults that are not valid, and rules in CEL that do not compile or cost too much. It also finds
// what no server rejects: limits that no value satisfies, paths of columns and of the scale
// subresource that lead to no field, and fields that have the same JSON name.
//
// The definitions are generated in memory, and checked by the command kapok check, which starts a
// server for that. What the server says of a field of a schema is a problem at the Go field. Run
// starts no goroutine that outlives it. It works in the working directory, and one process must
// have one Run at a time, as in package generate.
package vet
