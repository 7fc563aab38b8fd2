// Package client reads and writes the objects of any Kubernetes API server.
package client
