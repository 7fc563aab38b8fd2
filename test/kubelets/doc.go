// Package kubelets tests logs, exec, attach, portforward and proxies through the server, with
// client-go on one side and a stand-in for a kubelet on the other.
package kubelets
