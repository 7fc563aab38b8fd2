// Package dev runs the operator of a project while its source is edited: it generates, applies the
// project's manifests to a server, builds the operator, runs it as a process of this machine, and
// applies the samples. After a change of a file it does again what the change needs.
//
// A step that fails is printed, and what ran before keeps running until a change mends it. The
// package changes the project's files only by kapok generate.
//
// Run writes to a [Sink]: lines with labels ([Plain]), or the screen of package screen. It does not
// know which.
//
// [Run] owns all goroutines and processes: it returns when they have ended. Between steps there is
// one goroutine, the caller's, which looks for changes; there are no locks but those of the Sink.
package dev
