// Package rule has the validation rules that several groups of kinds need. Its functions have no
// side effects and may be called concurrently.
package rule
