// Package transport connects clients to the handler of a server: over pipes in the process
// ([InProcess]), or over a socket with TLS ([TLS], [Server]). It does not depend on the Kubernetes
// API.
//
// A [Server] owns the goroutines of its connections, and Stop waits for all of them. In-memory
// connections work in a testing/synctest bubble.
package transport
