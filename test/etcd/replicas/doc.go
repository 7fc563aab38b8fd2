// Package replicas tests several servers that share an etcd, all in this process:
// what clients of all of them see while members of etcd and servers die, are
// paused and are cut off, and what each promise of docs/replicas.md comes to. The
// commands of that page are run as they stand there, too, with real processes.
//
//	go test ./replicas          some minutes
//	go test ./replicas -long    linearizability for five minutes, and the page
//
// Between the parts run lines, TCP proxies that can be cut and frozen:
//
//	clients -> door -> server -> one line a member -> etcd
//
// A server dies without a word when its lines are cut before it is stopped: nothing
// of what it does then reaches anybody. Members of etcd are cut off from each other
// by etcd itself.
package replicas
