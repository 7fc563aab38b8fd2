// Package tools is a module with the dependencies of controller-gen, which generates DeepCopy
// methods, CustomResourceDefinitions and roles of the examples. It keeps them out of Kapok's
// go.mod.
package tools
