"""Would a task start here?"""
