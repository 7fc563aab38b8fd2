// Package history serves history.kapok.dev/v1: the revisions of objects.
//
//	GET /apis/history.kapok.dev/v1/namespaces/NAMESPACE/revisions?fieldSelector=regarding.resource=deployments.apps,regarding.name=web
//	GET /apis/history.kapok.dev/v1/namespaces/NAMESPACE/revisions/deployments.apps:web:1207
//	GET /apis/history.kapok.dev/v1/clusterrevisions...      for objects without namespace
//
// A [Revision] is a write that the server still knows: who made it, when, what it changed, and the
// object as it was then. A list has the revisions of one object, newest first. Nothing can be
// written.
//
// A user needs the permission to get or list revisions, and to get the object itself.
//
// [Changed] and [Managers] tell what a write has changed and who made it; they work for objects of
// any API server.
//
// The package starts no goroutine; a [Handler] is safe for concurrent use.
package history
