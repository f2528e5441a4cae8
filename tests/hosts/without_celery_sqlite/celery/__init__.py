raise ModuleNotFoundError("This project does not use Celery: nothing may import it.")
