// Package shards tests that members of a group of package manager/shards never have a key in two
// hands: in virtual time with members that are cut off, suspended and killed, and with processes
// that get SIGSTOP, SIGCONT and SIGKILL.
//
// A member that works on a key holds a ConfigMap: it writes its name into it, and removes the name
// later, both without a resourceVersion. The history of the ConfigMaps and Leases, ordered by
// revision, shows whether two members held one at the same time: see the type ledger.
package shards
