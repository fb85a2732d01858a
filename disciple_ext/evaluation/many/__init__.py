"""One evaluation in many parts, on one machine or several."""
