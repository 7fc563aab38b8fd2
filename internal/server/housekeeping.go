package server

import (
	"fmt"
	"slices"
	"strings"
)

// The tasks that the server performs itself, with the names of [Options.Housekeeping]. All of them
// except ttl are tasks of kube-controller-manager in a cluster.
const (
	keepAccounts     = "accounts"           // create the account default in each namespace
	gatherRules      = "cluster-roles"      // aggregate cluster roles
	collectGarbage   = "gc"                 // delete dependents whose owners are gone, and owners in foreground deletion
	emptyNamespaces  = "namespace"          // delete the contents of namespaces that are being deleted
	checkPolicies    = "policy-status"      // report type errors of admission policies
	countQuotas      = "quota"              // update the status of resource quotas
	publishAuthority = "root-ca"            // create the config map kube-root-ca.crt in each namespace
	signRequests     = "signer"             // issue certificates for approved requests
	releaseStorage   = "storage-protection" // remove the finalizers of unused claims, volumes and attributes classes
	fillTokens       = "tokens"             // write tokens into secrets of service accounts
	endEvents        = "ttl"                // delete events and other objects that have expired
)

// Housekeeping returns the names that [Options.Housekeeping] accepts.
func Housekeeping() []string {
	return []string{
		keepAccounts, gatherRules, collectGarbage, emptyNamespaces, checkPolicies, countQuotas, publishAuthority, signRequests,
		releaseStorage, fillTokens, endEvents,
	}
}

// checkHousekeeping returns an error for unknown names.
func (o *Options) checkHousekeeping() error {
	for _, entry := range o.Housekeeping {
		name := strings.TrimPrefix(entry, "-")
		if name != "*" && !slices.Contains(Housekeeping(), name) {
			return fmt.Errorf("Options.Housekeeping has %q: want one of %s, or *, with a - before it to turn it off", entry, strings.Join(Housekeeping(), ", "))
		}
	}
	return nil
}

// keeps reports whether the server does a task. The last entry that names the task counts.
func (o *Options) keeps(part string) bool {
	if o.KeepGarbage || o.Accounts.None && slices.Contains([]string{keepAccounts, publishAuthority, fillTokens}, part) {
		return false
	}
	for _, entry := range slices.Backward(o.Housekeeping) {
		if name := strings.TrimPrefix(entry, "-"); name == part || name == "*" {
			return name == entry
		}
	}
	return true
}

// keepsAny reports whether the server does at least one of several tasks.
func (o *Options) keepsAny(parts ...string) bool { return slices.ContainsFunc(parts, o.keeps) }
