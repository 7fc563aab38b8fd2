// Package tables has the tables in which servers show the objects of the built-in kinds to clients such as kubectl get: one
// function a kind, with the columns, descriptions and cells of kube-apiserver.
package tables
