// Package kubelet runs pods on real nodes: kubelets with containerd and runc, which join a kapok up
// by the script of kapok node join, with kube-proxy, CoreDNS and metrics-server. It needs Linux,
// root, runc and the CNI plugins of the system, and is therefore a part of .ci/run --long alone
// (section kubelet). The programs are built from their modules; images consist of one static
// program, package tool.
//
// Nothing of the machine changes: the test runs itself again in namespaces of its own, in which the
// directories that kubelet and containerd write to are in the test's directory. Each node has its
// own namespaces for mounts and network, and is connected to a bridge in those of the server.
package kubelet
