// Package hostile sends requests that nobody should send, and wants each of them refused, with nothing changed.
//
// Cases are plain files in testdata:
//
//	== NAME                     begins a case
//	user: admin|anonymous       who asks; admin unless said
//	METHOD TARGET               the request line, sent as it stands
//	NAME: VALUE                 headers, likewise
//	body: PARTS                 the body
//	want: CODE FRAGMENT         the status code, and what the body of the answer contains
//
// PARTS, and header values and targets that begin with {, are Go string literals with an optional *N behind each, put together:
// {"a" "b"*1000}. A Content-Length is added unless there is one, or a Transfer-Encoding.
//
// After every case the server must live, and its revision must be what it was: nothing was written. The flag -rewrite records the
// answers, which are to be read before they are committed: an answer below 400 needs a reason in the name of its case.
package hostile
