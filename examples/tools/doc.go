// Package tools is the module of the tool that generates what the examples do not write by hand:
// DeepCopy methods, definitions of custom resources, roles. Its dependencies are none of Kapok's.
package tools
