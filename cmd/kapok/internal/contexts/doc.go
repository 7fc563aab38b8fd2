// Package contexts adds the contexts of instances to the kubeconfig of the user, and removes them.
//
// Everything else in the file stays as it is, apart from comments and its layout, as with kubectl
// config. An entry that was not made by this package for the same directory is never changed: what
// is made has an extension of the name kapok.dev/instance. The file is locked as kubectl locks it,
// and replaced in one step.
package contexts
