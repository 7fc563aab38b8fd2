// Package flowschemas maintains the FlowSchemas and PriorityLevelConfigurations that every server
// has.
//
// [Ensure] creates the missing ones at start. A [Maintainer] restores default objects that have
// been deleted or changed, unless the annotation apf.kubernetes.io/autoupdate-spec leaves them to
// the user, and writes into the status of each FlowSchema whether its priority level exists. What
// it does, and its words, are those of the controllers of kube-apiserver 1.37. internal/fairness,
// which limits requests according to these objects, only reads them.
//
// A Maintainer owns one goroutine, for which Close waits.
package flowschemas
