package main

func (r *planReport) markdown() string { return "" }
