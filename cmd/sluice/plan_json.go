package main

func (r *planReport) json() any { return nil }
