package controllers

import (
	"fmt"
	"slices"
	"strings"
)

// An outside is a controller of kube-controller-manager that this package does not have. One of
// task and reason is set.
type outside struct {
	name, alias string
	task        string // of Kapok's server, by its name in kapok.Options.Housekeeping
	reason      string // that there is no such controller
}

// outsides are the controllers that kube-controller-manager 1.37 has in addition to all. One that
// is also in all counts as there.
var outsides = []outside{
	{name: "certificatesigningrequest-signing-controller", alias: "csrsigning", task: "signer"},
	{name: "clusterrole-aggregation-controller", alias: "clusterrole-aggregation", task: "cluster-roles"},
	{name: "garbage-collector-controller", alias: "garbagecollector", task: "gc"},
	{name: "namespace-controller", alias: "namespace", task: "namespace"},
	{name: "resourcequota-controller", alias: "resourcequota", task: "quota"},
	{name: "root-ca-certificate-publisher-controller", alias: "root-ca-cert-publisher", task: "root-ca"},
	{name: "serviceaccount-controller", alias: "serviceaccount", task: "accounts"},
	{name: "serviceaccount-token-controller", alias: "serviceaccount-token", task: "tokens"},
	{name: "validatingadmissionpolicy-status-controller", task: "policy-status"},

	{name: "podgroup-protection-controller", reason: "its feature gate GenericWorkload is off in Kubernetes 1.37"},
	{name: "resourcepoolstatusrequest-controller", reason: "its feature gate DRAResourcePoolStatus is off in Kubernetes 1.37"},
	{name: "selinux-warning-controller", reason: "it is off by default, and reports conflicts of volumes on nodes with SELinux"},
	{name: "storageversion-garbage-collector-controller", alias: "storage-version-gc", reason: "its feature gate StorageVersionAPI is off in Kubernetes 1.37"},
}

// check returns an error for names that kube-controller-manager does not know, for controllers that
// this package does not have, and for names that would turn off a task of the server.
func check(names []string) error {
	for _, text := range names {
		name, off := strings.CutPrefix(text, "-")
		if text == "*" || slices.ContainsFunc(all, func(c entry) bool { return c.is(name) }) {
			continue
		}
		i := slices.IndexFunc(outsides, func(o outside) bool { return name != "" && (name == o.name || name == o.alias) })
		if i < 0 {
			return fmt.Errorf("%q is not in the list of known controllers: %s", text, strings.Join(Names(), ", "))
		}
		switch o := outsides[i]; {
		case off && o.task != "":
			return fmt.Errorf("%q: Kapok's server does the work of this controller; --housekeeping=-%s of the server turns it off", text, o.task)
		case !off && o.reason != "":
			return fmt.Errorf("there is no %s: %s", o.name, o.reason)
		}
	}
	return nil
}
