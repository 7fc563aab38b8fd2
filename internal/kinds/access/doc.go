// Package access defines roles and bindings, reviews of access and identity, and token requests.
package access
