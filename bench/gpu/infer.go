package main

import "errors"

func infer(s size, o options) error { return errors.New("not yet") }
