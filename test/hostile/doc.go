// Package hostile sends hostile requests: each must be rejected, and change nothing.
//
// Cases are plain files in testdata:
//
//	== NAME                     begins a case
//	user: admin|anonymous       the user; default admin
//	METHOD TARGET               the request line, sent unchanged
//	NAME: VALUE                 headers, sent unchanged
//	body: PARTS                 the body
//	want: CODE FRAGMENT         the status code, and a part of the response's body
//
// PARTS, and header values and targets that begin with {, are concatenated Go string literals, each
// with an optional *N: {"a" "b"*1000}. A Content-Length is added unless there is one, or a
// Transfer-Encoding.
//
// After every case the server must be running at the same revision: nothing was written. The flag
// -rewrite records the responses, which must be reviewed before they are committed: a response
// below 400 needs a reason in the name of its case.
package hostile
