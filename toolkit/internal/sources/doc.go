// Package sources loads what generators of code need of Go packages, from their sources:
// declarations without the bodies of functions.
//
// [Load] type-checks some packages with all their declarations, and of the packages that these
// import only the declarations that they refer to, directly or through others. Packages and
// declarations that nothing refers to are neither parsed nor checked. [LoadShapes] loads of the
// first ones, too, only what types look like.
//
// Positions are those of the complete files. Comments in bodies are dropped, except for bodies with
// markers.
//
// All goroutines end before a function returns. Functions may be called concurrently for different
// packages.
package sources
