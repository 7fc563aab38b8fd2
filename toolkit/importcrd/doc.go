// Package importcrd writes Go types for CustomResourceDefinitions: what controller-gen does, in the
// other direction. With the types, a program can use the kinds of another operator without the
// module in which they are defined.
//
// The definitions come from files, directories or a server. Each version of a group becomes a
// package in the module of the working directory, with the types of its kinds, markers that give
// the same definitions again, the methods for deep copies, and AddToScheme.
//
// The types keep what an object has: an optional field is a pointer unless its zero value is
// invalid, and lists and maps differ between empty and absent. After writing, the package generates
// the definitions from the types, and reports in which parts of their specs they differ from the
// imported ones.
//
// [Run] changes files below one directory. If it fails, they are as they were. It must not run
// twice at a time in a process, see package generate.
package importcrd
