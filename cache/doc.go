// Package cache keeps the objects of an API server at hand, for programs that read them much more often than they change.
package cache
