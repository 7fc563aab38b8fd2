// Package validation judges the objects of the built-in kinds: one function a kind and view (Pod, PodStatus), which takes the
// object with its defaults and, on update, the one before, nil on create. What the errors say, and in which order, is what
// kube-apiserver says; the oracle (test/oracle) has recorded it. ObjectMeta is not judged here, but for what is special about
// built-in kinds. The functions change nothing and share nothing.
package validation
