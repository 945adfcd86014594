// Package lint holds the rules of the house that a test can hold: which package may import which, and that every exported name
// says what it is. It has no code of its own; the rules are its tests.
package lint
