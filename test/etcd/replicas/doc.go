// Package replicas tests several servers that share an etcd, all in this process: what clients of
// all of them see while members of etcd and servers die, are paused and are disconnected, and each
// promise of docs/replicas.md. The commands of that page also run as printed, with real processes.
//
//	go test ./replicas          some minutes
//	go test ./replicas -long    linearizability for five minutes, and the page
//	go test ./replicas -old F   also servers of two versions: F is the program of an earlier one
//
// Between the processes are lines, TCP proxies that can be cut and frozen:
//
//	clients -> front line -> server -> one line per member -> etcd
//
// A server dies without a shutdown if its lines are cut before it is stopped: nothing that it does
// then reaches a client. Members of etcd are disconnected from each other by etcd itself.
package replicas
