// Package first is the first test that docs/testing.md shows.
package first
