// Package house tests rules of the repository: the directions of imports, the sizes of interfaces,
// doc comments, the links and the words of documents.
package house
