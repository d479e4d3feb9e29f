"""Part of jiuwen_memory; see the modules."""
